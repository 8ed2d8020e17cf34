//! What a model is asked (REQ-015).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::wire_hooks::WireHooks;
use crate::history::{History, UnitKind};
use crate::message::Message;
use crate::model::{
    CacheConfig, ModelConfig, ResponseFormat, Secret, ThinkingBudgets, ThinkingLevel, ToolChoice,
};
use crate::tool::ToolDefinitions;

/// Sees the body of a request before it is sent, and may replace it (B-156).
pub type RequestHook = Arc<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

/// One request to a model. The history is closed: every call in it has its result.
#[derive(Clone)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The model.
    pub model: Arc<ModelConfig>,
    /// The system prompt; empty for none.
    pub system_prompt: Arc<str>,
    /// The conversation.
    pub history: History,
    /// The tools that the model is told of.
    pub tools: ToolDefinitions,
    /// How much it is asked to think.
    pub thinking_level: ThinkingLevel,
    /// What the levels mean in tokens.
    pub thinking_budgets: ThinkingBudgets,
    /// A key that wins over the model's.
    pub api_key: Option<Secret>,
    /// The most tokens of the answer; the model's limit when absent.
    pub max_tokens: Option<u32>,
    /// Randomness.
    pub temperature: Option<f32>,
    /// Prompt caching.
    pub cache_config: CacheConfig,
    /// A name for the session, for providers whose cache wants one (B-023).
    pub session_id: Option<String>,
    /// Whether tools must be called.
    pub tool_choice: ToolChoice,
    /// The form of the answer.
    pub response_format: ResponseFormat,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Headers for this call; they win over the model's, and `None` removes one.
    pub headers: BTreeMap<String, Option<String>>,
    /// Whether the readable thinking of another model is shown to this one as text (D20).
    pub foreign_thinking_as_text: bool,
    /// Sees and may replace the body.
    pub request_hook: Option<RequestHook>,
    /// Look at the bytes of the exchange.
    pub wire_hooks: WireHooks,
}

impl ModelRequest {
    /// A request with nothing but a model and a conversation.
    #[must_use]
    pub fn new(model: impl Into<Arc<ModelConfig>>, history: History) -> Self {
        Self {
            model: model.into(),
            system_prompt: Arc::from(""),
            history,
            tools: ToolDefinitions::default(),
            thinking_level: ThinkingLevel::Off,
            thinking_budgets: ThinkingBudgets::default(),
            api_key: None,
            max_tokens: None,
            temperature: None,
            cache_config: CacheConfig::default(),
            session_id: None,
            tool_choice: ToolChoice::Auto,
            response_format: ResponseFormat::Text,
            stop_sequences: Vec::new(),
            headers: BTreeMap::new(),
            foreign_thinking_as_text: false,
            request_hook: None,
            wire_hooks: WireHooks::default(),
        }
    }

    /// The messages that the model may see.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let shown = self.history.units().filter(|unit| unit.kind() != UnitKind::Failed);
        shown.flat_map(|unit| unit.entries()).filter_map(|entry| entry.message().as_llm())
    }

    /// The key to use: that of the call, else that of the model.
    #[must_use]
    pub fn key(&self) -> Option<&Secret> {
        self.api_key.as_ref().or(self.model.api_key.as_ref())
    }
}

impl fmt::Debug for ModelRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelRequest")
            .field("model", &self.model)
            .field("messages", &self.history.len())
            .field("tools", &self.tools.definitions().len())
            .field("thinking_level", &self.thinking_level)
            .finish_non_exhaustive()
    }
}
