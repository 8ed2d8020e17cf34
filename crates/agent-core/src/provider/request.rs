//! The request of a model call.

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

/// Receives the body of a request before it is sent, and may return a replacement.
pub type RequestHook = Arc<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

/// A request to a model. Every call in its history has a result.
#[derive(Clone)]
#[non_exhaustive]
pub struct ModelRequest {
    /// The model to call.
    pub model: Arc<ModelConfig>,
    /// The system prompt; empty for none.
    pub system_prompt: Arc<str>,
    /// The conversation that the model receives.
    pub history: History,
    /// The definitions of the available tools.
    pub tools: ToolDefinitions,
    /// How much the model thinks.
    pub thinking_level: ThinkingLevel,
    /// The thinking budgets of the levels, in tokens.
    pub thinking_budgets: ThinkingBudgets,
    /// An API key that takes precedence over that of the model.
    pub api_key: Option<Secret>,
    /// The maximum number of tokens of the answer; `None` for the model's limit.
    pub max_tokens: Option<u32>,
    /// The sampling temperature; `None` for the provider's default.
    pub temperature: Option<f32>,
    /// The prompt caching of the request.
    pub cache_config: CacheConfig,
    /// An id of the session, for providers whose cache needs one.
    pub session_id: Option<String>,
    /// Whether the model must, may or must not call tools.
    pub tool_choice: ToolChoice,
    /// The required format of the answer.
    pub response_format: ResponseFormat,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Headers of this call. They take precedence over the model's; `None` removes a header.
    pub headers: BTreeMap<String, Option<String>>,
    /// Whether readable thinking of another model is sent to this one as text.
    pub foreign_thinking_as_text: bool,
    /// A hook that receives the body and may replace it.
    pub request_hook: Option<RequestHook>,
    /// Hooks that observe the bytes of the exchange.
    pub wire_hooks: WireHooks,
}

impl ModelRequest {
    /// Creates a request with a model, a conversation, and defaults for everything else.
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

    /// Returns the messages that the model receives.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let shown = self.history.units().filter(|unit| unit.kind() != UnitKind::Failed);
        shown.flat_map(|unit| unit.entries()).filter_map(|entry| entry.message().as_llm())
    }

    /// Returns the key to use: that of the request, else that of the model.
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
