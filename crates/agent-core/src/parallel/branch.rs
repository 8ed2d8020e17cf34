//! One of several parallel branches.

use std::fmt;
use std::sync::Arc;

use crate::drive::AgentLoopConfig;
use crate::history::History;
use crate::message::AgentMessage;
use crate::run::ChildAnswer;
use crate::tool::Tools;

/// One of several alternatives: a configuration and its differences from the shared context. Everything that is
/// `None` is taken from the context.
#[derive(Clone)]
#[non_exhaustive]
pub struct Branch {
    /// The configuration of the branch's loop.
    pub config: AgentLoopConfig,
    /// The tools of this branch, for example those of a workspace that only this branch writes.
    pub tools: Option<Tools>,
    /// The system prompt of this branch.
    pub system_prompt: Option<Arc<str>>,
    /// The conversation of this branch, for example one with a different tool result.
    pub history: Option<History>,
    /// The prompts of this branch.
    pub prompts: Option<Vec<AgentMessage>>,
    /// The answers to questions at which this branch waited when its group was cut off. Others are ignored.
    pub answers: Vec<ChildAnswer>,
}

/// Shows figures, without the conversation.
impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch")
            .field("model", &self.config.model)
            .field("tools", &self.tools)
            .field("system_prompt_bytes", &self.system_prompt.as_ref().map(|prompt| prompt.len()))
            .field("history", &self.history)
            .field("prompts", &self.prompts.as_ref().map(Vec::len))
            .finish_non_exhaustive()
    }
}

impl Branch {
    /// Creates a branch that differs from the others only in its configuration.
    #[must_use]
    pub fn new(config: AgentLoopConfig) -> Self {
        Self { config, tools: None, system_prompt: None, history: None, prompts: None, answers: Vec::new() }
    }

    /// Sets the tools of this branch.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Tools>) -> Self {
        self.tools = Some(tools.into());
        self
    }

    /// Sets the system prompt of this branch.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = Some(text.into());
        self
    }

    /// Sets the conversation of this branch.
    #[must_use]
    pub fn with_history(mut self, history: History) -> Self {
        self.history = Some(history);
        self
    }

    /// Sets the prompts of this branch; an empty list continues from the conversation.
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
