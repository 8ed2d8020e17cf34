//! One of several alternatives.

use std::fmt;
use std::sync::Arc;

use crate::drive::AgentLoopConfig;
use crate::history::History;
use crate::message::AgentMessage;
use crate::tool::Tools;

/// One of several alternatives: a configuration, and what differs from the shared context. Whatever is not set here is the
/// context's.
#[derive(Clone)]
#[non_exhaustive]
pub struct Branch {
    /// How its loop behaves.
    pub config: AgentLoopConfig,
    /// Tools of its own, for example those of a workspace that only this branch writes in.
    pub tools: Option<Tools>,
    /// A system prompt of its own.
    pub system_prompt: Option<Arc<str>>,
    /// A conversation of its own: another past, such as one with another tool result.
    pub history: Option<History>,
    /// Prompts of its own.
    pub prompts: Option<Vec<AgentMessage>>,
}

impl Branch {
    /// A branch that differs from the others by its configuration only.
    #[must_use]
    pub fn new(config: AgentLoopConfig) -> Self {
        Self { config, tools: None, system_prompt: None, history: None, prompts: None }
    }

    /// The same branch with tools of its own.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Tools>) -> Self {
        self.tools = Some(tools.into());
        self
    }

    /// The same branch with a system prompt of its own.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// The same branch over another past.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    /// The same branch with prompts of its own; none for one that goes on from what its conversation holds.
    #[must_use]
    pub fn with_prompts(mut self, prompts: Vec<AgentMessage>) -> Self {
        self.prompts = Some(prompts);
        self
    }
}

impl From<AgentLoopConfig> for Branch {
    fn from(config: AgentLoopConfig) -> Self {
        Self::new(config)
    }
}

impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch")
            .field("config", &self.config)
            .field("own_tools", &self.tools.is_some())
            .field("own_system_prompt", &self.system_prompt.is_some())
            .field("own_history", &self.history.is_some())
            .field("own_prompts", &self.prompts.is_some())
            .finish()
    }
}
