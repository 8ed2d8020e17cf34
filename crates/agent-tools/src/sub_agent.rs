//! An agent as a tool: a task goes to a model of its own, with tools of its own, and its answer comes back.
//!
//! The child runs the same loop as its caller, with an empty conversation. It calls its model through the caller's provider
//! and is written down where the caller is, with the caller's loop as its parent, so the tree of loops holds both. Its text
//! arrives live as updates of the call, and what it does with its tools as progress. An abort of the caller, or a time limit on the
//! call, ends it. Calls of one reply run beside each other as those of any tool do.
//!
//! | how the child ended | what the caller's model sees |
//! |---|---|
//! | it answered | the text of its last message |
//! | it said nothing | [`NO_TEXT`] |
//! | it failed | what there was, and the error; `is_error` is set |
//! | a limit or the budget stopped it | what there was, and which limit; this is no error: a part of an answer is of use |
//! | it was aborted | an error result |
//!
//! Nobody can be asked inside of a child: what a tool or a hook of it asks is denied, and the child's model is told so.
//!
//! ```
//! use agent_core::{AgentTool, ModelConfig};
//! use agent_tools::SubAgentTool;
//! let reader = SubAgentTool::new("reader", ModelConfig::anthropic("claude-haiku-4-5", "Haiku", "key"))
//!     .with_description("Reads long files and answers questions about them.")
//!     .with_system_prompt("Answer in three sentences.")
//!     .with_max_turns(5);
//! assert_eq!(reader.name(), "reader");
//! ```

mod args;
mod call;
mod error;
mod output;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    AgentLoopConfig, AgentTool, BudgetLimits, Effects, ExecutionLimits, LoopId, ModelConfig, StreamProvider,
    ThinkingLevel, ToolContext, ToolError, ToolResult, Tools,
};
use async_trait::async_trait;
use serde_json::Value;

use error::SubAgentError;
pub use output::{NO_TEXT, extract_final_text};

/// Turns of a child unless said otherwise.
const MAX_TURNS: u32 = 10;

/// Tokens of a child unless said otherwise.
const MAX_TOKENS: u64 = 1_000_000;

/// How long a child may take unless said otherwise.
const MAX_DURATION: Duration = Duration::from_secs(300);

type Change = dyn Fn(&mut AgentLoopConfig) + Send + Sync;

/// An agent as a tool (REQ-148, REQ-151).
#[derive(Clone)]
pub struct SubAgentTool {
    name: String,
    description: String,
    model: Arc<ModelConfig>,
    provider: Option<Arc<dyn StreamProvider>>,
    system_prompt: Arc<str>,
    tools: Tools,
    limits: ExecutionLimits,
    budget: Option<BudgetLimits>,
    thinking: ThinkingLevel,
    parent_loop_id: Option<LoopId>,
    effects: Effects,
    change: Option<Arc<Change>>,
}

impl SubAgentTool {
    /// A child of this name for this model. It has no tools, ten turns, a million tokens and five minutes.
    #[must_use]
    pub fn new(name: impl Into<String>, model: impl Into<Arc<ModelConfig>>) -> Self {
        let name = name.into();
        Self {
            description: format!("Delegate a task to the '{name}' sub-agent"),
            name,
            model: model.into(),
            provider: None,
            system_prompt: Arc::from(""),
            tools: Tools::default(),
            limits: ExecutionLimits::default()
                .with_max_turns(MAX_TURNS)
                .with_max_total_tokens(MAX_TOKENS)
                .with_max_duration(MAX_DURATION),
            budget: None,
            thinking: ThinkingLevel::Off,
            parent_loop_id: None,
            effects: Effects::Once,
            change: None,
        }
    }

    /// What the caller's model is told that it is good for.
    #[must_use]
    pub fn with_description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// The child's system prompt.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// The child's tools. It has none of its caller's.
    #[must_use]
    pub fn with_tools(self, tools: Vec<Arc<dyn AgentTool>>) -> Self {
        self.with_toolkit(tools.into())
    }

    /// The child's tools, which others may share.
    #[must_use]
    pub fn with_toolkit(mut self, tools: Tools) -> Self {
        self.tools = tools;
        self
    }

    /// The most turns of one task.
    #[must_use]
    pub fn with_max_turns(mut self, turns: u32) -> Self {
        self.limits = self.limits.with_max_turns(turns);
        self
    }

    /// Turns, tokens and time of one task.
    #[must_use]
    pub fn with_limits(mut self, limits: ExecutionLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The most that one task may spend. Where the caller has a budget, what the child spends is the caller's, with or without
    /// limits of its own, and no limit of the child's lets it spend more than the caller has. At a limit the child stops.
    #[must_use]
    pub fn with_budget(mut self, limits: BudgetLimits) -> Self {
        self.budget = Some(limits);
        self
    }

    /// How much the child is asked to think.
    #[must_use]
    pub fn with_thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = level;
        self
    }

    /// Calls the child's model through this provider instead of the caller's.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn StreamProvider>) -> Self {
        self.provider = Some(provider);
        self
    }

    /// The loop that the child names as its parent, instead of the one that calls it (REQ-195).
    #[must_use]
    pub fn with_parent_loop_id(mut self, loop_id: impl Into<LoopId>) -> Self {
        self.parent_loop_id = Some(loop_id.into());
        self
    }

    /// What a task does to the world. `Once` unless said otherwise: a task that was cut off by a crash is asked about. A child
    /// that only reads is [`Effects::ReadOnly`].
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Changes anything else of the child's configuration, for each task: hooks, retries, routes, compaction.
    #[must_use]
    pub fn configure(mut self, change: impl Fn(&mut AgentLoopConfig) + Send + Sync + 'static) -> Self {
        self.change = Some(Arc::new(change));
        self
    }
}

impl fmt::Debug for SubAgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgentTool")
            .field("name", &self.name)
            .field("model", &self.model)
            .field("tools", &self.tools)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl AgentTool for SubAgentTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        self.effects
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, args::task(&arguments).map_err(SubAgentError::into_tool_error)?, ctx).await
    }
}
