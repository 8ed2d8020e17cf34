//! Tasks that a tool delegates to a loop of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Tools;
use crate::identity::LoopId;
use crate::message::AgentMessage;

/// A task that a tool delegates to a loop of its own, the child, instead of executing it.
///
/// The code that runs loops adds the constructor, which takes the configuration of the child and the conversion of its
/// end into a result: see [`Delegation`](crate::drive::Delegation).
#[derive(Clone)]
#[non_exhaustive]
pub struct ChildRun {
    /// The prompts of the child.
    pub prompts: Vec<AgentMessage>,
    /// The system prompt of the child. The default is empty.
    pub system_prompt: Arc<str>,
    /// The tools of the child. The default is none.
    pub tools: Tools,
    /// The parent of the child's loop. The default is the loop that makes the call.
    pub parent_loop_id: Option<LoopId>,
    /// How the child is configured and reported, in a type of the code that runs loops.
    plan: Arc<dyn Any + Send + Sync>,
}

impl ChildRun {
    pub(crate) fn with_plan(prompts: Vec<AgentMessage>, plan: impl Any + Send + Sync) -> Self {
        let (system_prompt, tools) = (Arc::from(""), Tools::default());
        Self { prompts, system_prompt, tools, parent_loop_id: None, plan: Arc::new(plan) }
    }

    pub(crate) fn plan<P: Any>(&self) -> Option<&P> {
        self.plan.downcast_ref()
    }

    /// Replaces the plan, for a tool that wraps another one.
    pub(crate) fn replan(mut self, plan: impl Any + Send + Sync) -> Self {
        self.plan = Arc::new(plan);
        self
    }

    /// Sets the system prompt of the child.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Sets the tools of the child.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Tools>) -> Self {
        self.tools = tools.into();
        self
    }

    /// Sets the parent of the child's loop.
    #[must_use]
    pub fn with_parent_loop_id(mut self, id: Option<LoopId>) -> Self {
        self.parent_loop_id = id;
        self
    }
}

impl fmt::Debug for ChildRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildRun")
            .field("prompts", &self.prompts.len())
            .field("system_prompt_bytes", &self.system_prompt.len())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}
