//! The messages between client and server. Both sides use these definitions.

use agent_core::model::ServerTool;
use agent_core::{
    AgentMessage, CacheConfig, Completion, ErrorKind, ErrorRecord, History, Message, ModelConfig,
    ModelRequest, OwnedStreamEvent, ProviderError, ResponseFormat, StreamEvent, ThinkingBudgets,
    ThinkingLevel, ToolChoice, ToolDefinition,
};
use serde::{Deserialize, Serialize};

/// The version of the messages. A server rejects requests of another version.
pub(super) const VERSION: u32 = 2;

/// The name of the server-sent event that reports a failed call.
pub(super) const ERROR_EVENT: &str = "error";

/// A model request as a client sends it: without key, headers and address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemoteRequest {
    /// The version of the messages; currently 2.
    pub version: u32,
    /// The provider's name, as in [`ModelConfig::provider`].
    pub provider: String,
    /// The id of the requested model.
    pub model: String,
    /// The system prompt of the request.
    #[serde(default)]
    pub system_prompt: String,
    /// The definitions of the tools that the model may call.
    #[serde(default)]
    pub tools: Vec<ToolDefinition>,
    /// The requested thinking level.
    #[serde(default)]
    pub thinking_level: ThinkingLevel,
    /// The token budget of each thinking level.
    #[serde(default)]
    pub thinking_budgets: ThinkingBudgets,
    /// The maximum number of tokens of the reply; `None` means the limit of the model.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The sampling temperature; `None` means the default of the vendor.
    #[serde(default)]
    pub temperature: Option<f32>,
    /// The settings of prompt caching.
    #[serde(default)]
    pub cache_config: CacheConfig,
    /// The id of the session, which some vendors use for caching.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Whether the model may, must or must not call tools.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The tools of the model's vendor that the model may use, without the access tokens of MCP servers.
    #[serde(default)]
    pub server_tools: Vec<ServerTool>,
    /// The format of the reply.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Strings that end the reply.
    #[serde(default)]
    pub stop_sequences: Vec<String>,
    /// Whether readable thinking of other models is sent to this model as text.
    #[serde(default)]
    pub foreign_thinking_as_text: bool,
    /// The messages of the conversation.
    pub messages: Vec<Message>,
}

impl RemoteRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns a message for the client if the body is not a request or has another version.
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

    /// Converts the request to one for `model`, which the server has selected by [`provider`](Self::provider) and
    /// [`model`](Self::model). An invalid conversation is repaired, because the client is not trusted.
    #[must_use]
    pub fn into_config(self, model: ModelConfig) -> ModelRequest {
        let (history, _) = History::repaired(self.messages.into_iter().map(AgentMessage::from));
        let mut config = ModelRequest::new(model, history);
        config.system_prompt = self.system_prompt.into();
        config.tools = self.tools.into();
        config.options.thinking_level = self.thinking_level;
        config.options.thinking_budgets = self.thinking_budgets;
        config.options.max_tokens = self.max_tokens;
        config.options.temperature = self.temperature;
        config.options.cache_config = self.cache_config;
        config.session_id = self.session_id;
        config.options.tool_choice = self.tool_choice;
        config.options.server_tools = self.server_tools;
        config.options.response_format = self.response_format;
        config.options.stop_sequences = self.stop_sequences;
        config.options.foreign_thinking_as_text = self.foreign_thinking_as_text;
        config
    }
}

/// Converts the error of the server. A call that was cancelled on the server can be retried by the client.
pub(super) fn into_error(mut record: ErrorRecord) -> ProviderError {
    if record.kind == ErrorKind::Cancelled {
        record.kind = ErrorKind::Network;
    }
    record.into()
}

/// Appends the frame of a stream event to `out`.
pub fn event_frame(out: &mut Vec<u8>, event: StreamEvent<'_>) {
    frame(out, None, &OwnedStreamEvent::from(event));
}

/// Appends the last frame, which reports the completion or the error of the reply, to `out`.
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

/// Returns the JSON body of an error response. Clients report `code` as the error code and show `message`.
#[must_use]
pub fn refusal(code: &str, message: &str) -> String {
    serde_json::json!({"error": {"type": code, "message": message}}).to_string()
}
