//! The request of a model call.

use std::fmt;
use std::sync::Arc;

use super::options::RequestOptions;
use super::steering::SteeringFeed;
use crate::history::{History, UnitKind};
use crate::message::{AssistantMessage, Message};
use crate::model::{ModelConfig, Secret};
use crate::shared::Shared;
use crate::tool::ToolDefinitions;
use crate::trace::TraceContext;

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
    /// An API key that takes precedence over that of the model.
    pub api_key: Option<Secret>,
    /// An id of the session, for providers whose cache needs one.
    pub session_id: Option<String>,
    /// The options of the request, shared with the configuration of the agent.
    pub options: Shared<RequestOptions>,
    /// Reports a message with which the user steers the reply. `None` if steering waits for the end of the reply, as with
    /// [`SteeringPolicy::AfterTurn`](crate::SteeringPolicy::AfterTurn), and for requests without a run.
    pub steering: Option<SteeringFeed>,
    /// The trace context that is sent with the request. `None`, the default, sends none.
    pub trace: Option<Box<TraceContext>>,
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
            api_key: None,
            session_id: None,
            options: Shared::default(),
            steering: None,
            trace: None,
        }
    }

    /// Returns the messages that the model receives.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let shown = self.history.units().filter(|unit| unit.kind() != UnitKind::Failed);
        shown.flat_map(|unit| unit.entries()).filter_map(|entry| entry.message().as_llm())
    }

    /// Returns the last reply if this model paused it. The request continues it, so it must be sent back as it came.
    #[must_use]
    pub fn continued_reply(&self) -> Option<&AssistantMessage> {
        self.history.paused_reply().filter(|reply| reply.is_by(&self.model))
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
            .field("thinking_level", &self.options.thinking_level)
            .finish_non_exhaustive()
    }
}
