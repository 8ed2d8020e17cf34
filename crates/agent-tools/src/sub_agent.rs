//! A sub-agent as a tool: it runs a task with its own model and tools, and returns the final answer.
//!
//! The child runs the same loop as its caller, with an empty conversation. It uses the caller's provider and journal, and
//! its loop names the caller's loop as its parent, so that both are in one tree. Its events are in the stream of the caller,
//! with their own loop id and depth. An abort of the caller or the time limit of the call ends it. Several calls in one
//! reply run concurrently like those of any tool.
//!
//! The tool [delegates](AgentTool::delegate) its calls, so the driver runs the child. The ids of the child derive from the
//! caller's loop and step. If the process ends, the resumed caller continues the child where its record ends. A question
//! inside of the child suspends the caller with it: the question appears among those of the caller and is answered there.
//!
//! | how the child ended | the result of the call |
//! |---|---|
//! | completed | the text of its last message with text |
//! | completed without text | [`NO_TEXT`] |
//! | failed | its text and the error; `is_error` is set |
//! | stopped by a limit or the budget | its text and the reason; not an error, because a partial answer is useful |
//! | aborted | an error |
//!
//! The policies and `before_tool` hooks of the caller decide about the calls of the child before its own hooks, a `bash` without
//! a sandbox runs in that of the caller, and the limits of a task are no higher than those of the caller, unless they are set.
//! [`with_inheritance`](SubAgentTool::with_inheritance) gives a child only its own hooks. Loop hooks, input filters and queue
//! sources are never inherited.
//!
//! If the tool is called directly, without a driver, the child cannot ask a question. A call of the child that needs approval is
//! then denied, its model receives the reason, and its text is delivered as updates of the call.
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

mod in_background;
mod run;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::drive::Inheritance;
use agent_core::tool::ChildRun;
use agent_core::{
    AgentLoopConfig, AgentTool, BudgetLimits, Effects, ExecutionLimits, LoopId, ModelConfig, StreamProvider,
    ThinkingLevel, ToolContext, ToolError, ToolResult, Tools, argument_schema,
};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde_json::Value;

use crate::background_work::BackgroundWork;

pub use run::{NO_TEXT, extract_final_text};

/// The default maximum number of turns of a task.
const MAX_TURNS: u32 = 10;

/// The default maximum number of tokens of a task.
const MAX_TOKENS: u64 = 1_000_000;

/// The default maximum duration of a task.
const MAX_DURATION: Duration = Duration::from_secs(300);

type Change = dyn Fn(&mut AgentLoopConfig) + Send + Sync;

/// A tool that delegates a task to another agent.
#[derive(Clone)]
pub struct SubAgentTool {
    name: String,
    description: String,
    model: Arc<ModelConfig>,
    provider: Option<Arc<dyn StreamProvider>>,
    system_prompt: Arc<str>,
    tools: Tools,
    limits: Limits,
    inheritance: Inheritance,
    budget: Option<BudgetLimits>,
    thinking: ThinkingLevel,
    parent_loop_id: Option<LoopId>,
    effects: Effects,
    changes: Vec<Arc<Change>>,
    work: Option<BackgroundWork>,
}

impl SubAgentTool {
    /// Creates a sub-agent with this name and model. By default it has no tools, and at most 10 turns, 1,000,000 tokens
    /// and 5 minutes per task.
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
            limits: Limits::Below { max_turns: None },
            inheritance: Inheritance::default(),
            budget: None,
            thinking: ThinkingLevel::Off,
            parent_loop_id: None,
            effects: Effects::Once,
            changes: Vec::new(),
            work: None,
        }
    }

    /// Sets the description for the caller's model, which says when to use the sub-agent.
    #[must_use]
    pub fn with_description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets the system prompt of the child. The default is empty.
    #[must_use]
    pub fn with_system_prompt(mut self, text: impl Into<Arc<str>>) -> Self {
        self.system_prompt = text.into();
        self
    }

    /// Adds a tool of the child. The child does not get the tools of its caller.
    #[must_use]
    pub fn with_tool(mut self, tool: impl AgentTool + 'static) -> Self {
        self.tools = self.tools.with(tool);
        self
    }

    /// Adds tools of the child. A list that is added first is shared and not copied.
    #[must_use]
    pub fn with_tools(mut self, tools: impl Into<Tools>) -> Self {
        let tools = tools.into();
        self.tools = if self.tools.is_empty() { tools } else { self.tools.with_all(tools) };
        self
    }

    /// Sets the maximum number of turns of one task. The default is 10, or the limit of the caller if that is lower.
    #[must_use]
    pub fn with_max_turns(mut self, turns: u32) -> Self {
        self.limits = match self.limits {
            Limits::Below { .. } => Limits::Below { max_turns: Some(turns) },
            Limits::Own(limits) => Limits::Own(limits.with_max_turns(turns)),
        };
        self
    }

    /// Replaces all limits of one task: turns, tokens and time, including a limit set by
    /// [`with_max_turns`](Self::with_max_turns). They may be higher than those of the caller, whose time limit still ends
    /// the task.
    #[must_use]
    pub fn with_limits(mut self, limits: ExecutionLimits) -> Self {
        self.limits = Limits::Own(limits);
        self
    }

    /// Sets whether the child inherits the policies, the `before_tool` hooks and the sandbox of its caller. It does by
    /// default. With [`Inheritance::Independent`], a call that the caller may not make can be made by the child.
    #[must_use]
    pub fn with_inheritance(mut self, inheritance: Inheritance) -> Self {
        self.inheritance = inheritance;
        self
    }

    /// Sets the budget of one task. The costs of the child are always charged to the caller's budget as well, if there is
    /// one, and the child cannot exceed it. The child stops at the limit.
    #[must_use]
    pub fn with_budget(mut self, limits: BudgetLimits) -> Self {
        self.budget = Some(limits);
        self
    }

    /// Lets the model start tasks in the background, with the argument `background`. Such a task cannot ask a question: a
    /// call of the child that needs approval is denied. Its events are not in the caller's stream. Default: none, and no
    /// such argument.
    #[must_use]
    pub fn with_background_work(mut self, work: BackgroundWork) -> Self {
        self.work = Some(work);
        self
    }

    /// Sets the thinking level of the child. The default is off.
    #[must_use]
    pub fn with_thinking(mut self, level: ThinkingLevel) -> Self {
        self.thinking = level;
        self
    }

    /// Sets the provider of the child. The default is the provider of the caller.
    #[must_use]
    pub fn with_provider(mut self, provider: impl StreamProvider + 'static) -> Self {
        self.provider = Some(Arc::new(provider));
        self
    }

    /// Sets the parent of the loop of the child. The default is the loop that calls the tool.
    #[must_use]
    pub fn with_parent_loop_id(mut self, loop_id: impl Into<LoopId>) -> Self {
        self.parent_loop_id = Some(loop_id.into());
        self
    }

    /// Sets the side effects of a task. The default is [`Effects::Once`], so that an interrupted task needs approval before
    /// it runs again. A child that only reads is [`Effects::ReadOnly`].
    #[must_use]
    pub fn with_effects(mut self, effects: Effects) -> Self {
        self.effects = effects;
        self
    }

    /// Adds a function that changes the configuration of the child before each task, for example hooks, retries, routes
    /// or compaction. Several functions run in the order in which they were added.
    #[must_use]
    pub fn configure(mut self, change: impl Fn(&mut AgentLoopConfig) + Send + Sync + 'static) -> Self {
        self.changes.push(Arc::new(change));
        self
    }
}

/// The limits of a task.
#[derive(Debug, Clone, Copy)]
enum Limits {
    /// The defaults, and no more than those of the caller.
    Below {
        max_turns: Option<u32>,
    },
    Own(ExecutionLimits),
}

impl Limits {
    /// Returns the limits of a task for a caller with these limits.
    fn within(self, caller: Option<ExecutionLimits>) -> ExecutionLimits {
        match self {
            Self::Own(limits) => limits,
            Self::Below { max_turns } => {
                let caller = caller.unwrap_or_else(ExecutionLimits::unlimited);
                let turns = max_turns.unwrap_or_else(|| lower(MAX_TURNS, caller.max_turns));
                ExecutionLimits::default()
                    .with_max_turns(turns)
                    .with_max_total_tokens(lower(MAX_TOKENS, caller.max_total_tokens))
                    .with_max_duration(lower(MAX_DURATION, caller.max_duration))
            }
        }
    }
}

fn lower<T: Ord>(default: T, of_caller: Option<T>) -> T {
    match of_caller {
        Some(limit) => default.min(limit),
        None => default,
    }
}

/// The arguments of a sub-agent. Only their schema is used: the task is read from the JSON, so that a missing or blank
/// one gets an error of its own.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, transform = crate::arguments::plain)]
#[allow(dead_code, reason = "only the schema is used")]
struct SubAgentArgs {
    /// The task, with everything that is needed for it: the sub-agent receives nothing else
    task: String,
    /// Run the task in the background: the call returns at once, and the result comes in a later message
    background: Option<bool>,
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
        let mut schema = argument_schema::<SubAgentArgs>();
        if let (None, Some(Value::Object(properties))) = (&self.work, schema.pointer_mut("/properties")) {
            properties.remove("background");
        }
        schema
    }

    fn effects(&self, _arguments: &Value) -> Effects {
        self.effects
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let task = run::task(&arguments)?;
        if run::is_in_background(&arguments) {
            return in_background::start(self, task, &ctx);
        }
        run::run(self, task, ctx).await
    }

    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        if run::is_in_background(arguments) {
            return None;
        }
        // A call without a task is executed, which returns the error.
        run::task(arguments).ok().map(|task| run::child(self, task))
    }
}
