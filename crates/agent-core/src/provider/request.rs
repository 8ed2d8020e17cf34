//! What a model is asked (REQ-015).

use std::fmt;
use std::sync::Arc;

use super::options::RequestOptions;
use crate::history::{History, UnitKind};
use crate::message::Message;
use crate::model::{ModelConfig, Secret};
use crate::shared::Shared;
use crate::tool::ToolDefinitions;

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
    /// A key that wins over the model's.
    pub api_key: Option<Secret>,
    /// A name for the session, for providers whose cache wants one (B-023).
    pub session_id: Option<String>,
    /// How the model is asked; shared with the agent's configuration.
    pub options: Shared<RequestOptions>,
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
            api_key: None,
            session_id: None,
            options: Shared::default(),
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
            .field("thinking_level", &self.options.thinking_level)
            .finish_non_exhaustive()
    }
}
