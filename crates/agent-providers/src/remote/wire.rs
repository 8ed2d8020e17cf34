//! What goes between the two sides. Written and read by both, so each form stands here once.

use agent_core::{
    AgentMessage, CacheConfig, Completion, ErrorKind, ErrorRecord, History, Message, ModelConfig,
    ModelRequest, OwnedStreamEvent, ProviderError, ResponseFormat, StreamEvent, ThinkingBudgets,
    ThinkingLevel, ToolChoice, ToolDefinition,
};
use serde::{Deserialize, Serialize};

/// The version of these forms. A server refuses a request of another one.
pub(super) const VERSION: u32 = 2;

/// The SSE name of the frame in which a failed call ends.
pub(super) const ERROR_EVENT: &str = "error";

/// What a client asks for: a request to a model without key, headers and address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteRequest {
    /// The version of this form, 2.
    pub version: u32,
    /// The provider's name, as in [`ModelConfig::provider`].
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// The system prompt.
    #[serde(default)]
    pub system_prompt: String,
    /// The tools that the model is told of.
    #[serde(default)]
    pub tools: Vec<ToolDefinition>,
    /// How much it is asked to think.
    #[serde(default)]
    pub thinking_level: ThinkingLevel,
    /// What the levels mean in tokens.
    #[serde(default)]
    pub thinking_budgets: ThinkingBudgets,
    /// The most tokens of the answer.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Randomness.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// Prompt caching.
    #[serde(default)]
    pub cache_config: CacheConfig,
    /// A name for the session.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Whether tools must be called.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The form of the answer.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Texts at which the model stops.
    #[serde(default)]
    pub stop_sequences: Vec<String>,
    /// Whether the readable thinking of another model is shown to this one as text.
    #[serde(default)]
    pub foreign_thinking_as_text: bool,
    /// The conversation.
    pub messages: Vec<Message>,
}

impl RemoteRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// With a line for the client when it is no such request, or one of another version.
    pub fn from_json(body: &[u8]) -> Result<Self, String> {
        let request: Self =
            serde_json::from_slice(body).map_err(|error| format!("the body is no request: {error}"))?;
        if request.version != VERSION {
            return Err(format!(
                "the request is of version {}, this server knows version {VERSION}; use the same version on both sides",
                request.version
            ));
        }
        Ok(request)
    }

    /// The request to `model`, which the server has for [`provider`](Self::provider) and [`model`](Self::model). A
    /// conversation that no model may be shown is repaired: it comes from elsewhere.
    #[must_use]
    pub fn into_config(self, model: ModelConfig) -> ModelRequest {
        let (history, _) = History::repaired(self.messages.into_iter().map(AgentMessage::from));
        let mut config = ModelRequest::new(model, history);
        config.system_prompt = self.system_prompt.into();
        config.tools = self.tools.into();
        config.thinking_level = self.thinking_level;
        config.thinking_budgets = self.thinking_budgets;
        config.max_tokens = self.max_tokens;
        config.temperature = self.temperature;
        config.cache_config = self.cache_config;
        config.session_id = self.session_id;
        config.tool_choice = self.tool_choice;
        config.response_format = self.response_format;
        config.stop_sequences = self.stop_sequences;
        config.foreign_thinking_as_text = self.foreign_thinking_as_text;
        config
    }
}

/// The error that the other side said. That it was cancelled there is not this side's wish: the call may be made again.
pub(super) fn into_error(mut record: ErrorRecord) -> ProviderError {
    if record.kind == ErrorKind::Cancelled {
        record.kind = ErrorKind::Network;
    }
    record.into()
}

/// Appends the frame of a piece of the reply.
pub fn event_frame(out: &mut Vec<u8>, event: StreamEvent<'_>) {
    frame(out, None, &OwnedStreamEvent::from(event));
}

/// Appends the last frame: the reply is complete, or why it is not. Nothing may follow.
pub fn end_frame(out: &mut Vec<u8>, end: &Result<Completion, ProviderError>) {
    match end {
        Ok(completion) => frame(out, None, &OwnedStreamEvent::Done { completion: completion.clone() }),
        Err(error) => frame(out, Some(ERROR_EVENT), &ErrorRecord::from(error)),
    }
}

fn frame<T: Serialize>(out: &mut Vec<u8>, event: Option<&str>, data: &T) {
    if let Some(name) = event {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    crate::json::write(out, data);
    out.extend_from_slice(b"\n\n");
}

/// The JSON body of an answer that refuses a request. `code` is a word for programs.
#[must_use]
pub fn refusal(code: &str, message: &str) -> String {
    serde_json::json!({"error": {"type": code, "message": message}}).to_string()
}
