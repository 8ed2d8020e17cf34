//! Tools: the functions that a model can call.
//!
//! A tool is usually a [`Tool`] (typed arguments, the schema is derived) or is made from an async function by
//! [`tool_fn`]. Both are an [`AgentTool`], the object-safe trait that the loop works with. The loop checks the arguments
//! of every call against the schema before it runs the tool.
//!
//! ```
//! use agent_core::{Effects, ToolResult};
//! let result = ToolResult::text("3 files").with_details(serde_json::json!({"total": 3}));
//! assert!(!result.is_error);
//! assert_eq!(Effects::default(), Effects::Once);
//! ```

mod child;
mod context;
mod definition;
mod listing;
mod loading;
mod ranking;
mod result;
mod search;
mod tools;
mod typed;
pub mod validate;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use child::ChildRun;
pub use context::{ToolContext, ToolServices, ToolSignal, ToolUpdates};
pub use definition::{ToolCallers, ToolDefinition, ToolDefinitions};
pub(crate) use listing::{FoundBy, FoundTool};
pub use loading::{DeferTools, ToolLoading, ToolSearchForm};
pub use result::{ToolError, ToolResult};
pub(crate) use search::found_names;
pub use search::{TOOL_SEARCH, found_tools};
pub use tools::Tools;
pub(crate) use typed::plain_schema;
pub use typed::{FunctionTool, Tool, argument_schema, tool_fn};

/// How a tool accesses a file, for the policies of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileAccess {
    /// Reads a file that the arguments name.
    Read,
    /// Reads a file that the tool found by itself, about which there was no question.
    Find,
    /// Writes a file that the arguments name.
    Write,
}

/// A restriction that a tool passes to the tools of sub-agents. Its type is known to the tools that share it.
pub type Confinement = Arc<dyn Any + Send + Sync>;

/// A tool that the loop can call: the object-safe trait, with arguments as JSON.
///
/// Every [`Tool`] implements this trait. Implement it directly if the name or the schema is only known at run time.
/// `Arc<dyn AgentTool>` is itself a tool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "neither `Tool` nor `AgentTool` is implemented for `{Self}`",
    note = "implement `Tool` for it (typed arguments) or `AgentTool` (arguments as JSON)",
    note = "to make a tool from an async function, use `tool_fn(name, description, |args: Args, cx| async move {{ .. }})`"
)]
#[async_trait]
pub trait AgentTool: Send + Sync {
    /// Returns the name by which the model calls the tool: 1 to 64 ASCII letters, digits, `_` and `-`.
    fn name(&self) -> &str;

    /// Returns the name that is displayed to users. Defaults to [`name`](Self::name).
    fn label(&self) -> &str {
        self.name()
    }

    /// Returns what the tool does and when to use it, for the model.
    fn description(&self) -> &str;

    /// Returns the JSON schema of the arguments, which must describe an object.
    fn parameters_schema(&self) -> Value;

    /// Executes one call. The loop has checked the arguments against the schema, except those that a hook or an answer
    /// replaced ([`Verdict::AllowWith`](crate::Verdict::AllowWith)).
    ///
    /// # Errors
    /// Returns the reason why the call failed. The model receives its text as the result of the call.
    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError>;

    /// Returns the side effects of a call with these arguments, which decide whether an interrupted call may run again.
    /// Defaults to [`Effects::Once`].
    fn effects(&self, arguments: &Value) -> Effects {
        let _ = arguments;
        Effects::Once
    }

    /// Returns the question that the user must answer before this call runs, or `None` (the default) to run without
    /// approval.
    fn question(&self, arguments: &Value) -> Option<String> {
        let _ = arguments;
        None
    }

    /// Returns the folder in which calls run, for an approver. `None`, the default, if the tool has none.
    fn working_directory(&self) -> Option<PathBuf> {
        None
    }

    /// Returns the arguments with every path that the call accesses resolved: relative to the root of the tool's files, or
    /// absolute, without `..` and symlinks. `None`, the default, if no argument is a path. Policies compare their patterns
    /// with these arguments.
    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        let _ = arguments;
        None
    }

    /// Returns the restriction that the tools of a sub-agent inherit from this one, such as its sandbox. `None`, the
    /// default, if there is none.
    fn confinement(&self) -> Option<Confinement> {
        None
    }

    /// Returns this tool under the restrictions of the tools of the agent that starts a sub-agent, or `None`, the default,
    /// if they do not concern it.
    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        let _ = by;
        None
    }

    /// Returns the maximum duration of one call. Overrides the agent's limit; `None` (the default) keeps it.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether the calls of one reply may run concurrently if this tool is among them. Defaults to
    /// [`ToolConcurrency::Parallel`].
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Parallel
    }

    /// Returns whether the model receives the definition of the tool with every request or after it has searched for the
    /// tool. Defaults to [`ToolLoading::Always`]; [`Tools::deferred`] marks tools. A tool that wraps another one must forward
    /// this method.
    fn loading(&self) -> ToolLoading {
        ToolLoading::Always
    }

    /// Returns who may call the tool: the model (the default), code that the vendor runs, or both.
    fn callers(&self) -> ToolCallers {
        ToolCallers::Model
    }

    /// Rewrites the arguments that the model sent before they are checked against the schema, for example to accept
    /// an older name of a field. Returns them unchanged by default.
    fn prepare_arguments(&self, arguments: Value) -> Value {
        arguments
    }

    /// Returns the loop to which a call with these arguments is delegated, or `None` (the default) to
    /// [execute](Self::execute) the call. The driver runs the child, resumes it after a crash, and lets its questions
    /// suspend the run. A tool that wraps another one must forward this method.
    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        let _ = arguments;
        None
    }
}

#[async_trait]
impl<T: AgentTool + ?Sized> AgentTool for Arc<T> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn label(&self) -> &str {
        (**self).label()
    }

    fn description(&self) -> &str {
        (**self).description()
    }

    fn parameters_schema(&self) -> Value {
        (**self).parameters_schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        (**self).execute(arguments, ctx).await
    }

    fn effects(&self, arguments: &Value) -> Effects {
        (**self).effects(arguments)
    }

    fn question(&self, arguments: &Value) -> Option<String> {
        (**self).question(arguments)
    }

    fn working_directory(&self) -> Option<PathBuf> {
        (**self).working_directory()
    }

    fn resolved_arguments(&self, arguments: &Value) -> Option<Value> {
        (**self).resolved_arguments(arguments)
    }

    fn confinement(&self) -> Option<Confinement> {
        (**self).confinement()
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        (**self).confined(by)
    }

    fn timeout(&self) -> Option<Duration> {
        (**self).timeout()
    }

    fn concurrency(&self) -> ToolConcurrency {
        (**self).concurrency()
    }

    fn loading(&self) -> ToolLoading {
        (**self).loading()
    }

    fn callers(&self) -> ToolCallers {
        (**self).callers()
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        (**self).prepare_arguments(arguments)
    }

    fn delegate(&self, arguments: &Value) -> Option<ChildRun> {
        (**self).delegate(arguments)
    }
}

impl fmt::Debug for dyn AgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentTool").field(&self.name()).finish()
    }
}

/// The side effects of a call. They decide whether a call that was interrupted may run again when the run is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Effects {
    /// The call changes nothing, so it may run again.
    ReadOnly,
    /// Running the call again has no further effect, so it may run again.
    Idempotent,
    /// The call must not run twice without approval. This is the default.
    #[default]
    Once,
}

/// Whether a call may run concurrently with the other calls of the same reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolConcurrency {
    /// The call may run concurrently with others. This is the default.
    #[default]
    Parallel,
    /// All calls of a reply that calls this tool run one after the other.
    Sequential,
}

/// How the calls of one reply are executed, and when queued steering messages are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolExecutionStrategy {
    /// One call after the other. Steering messages are checked after each call.
    Sequential,
    /// All calls concurrently. Steering messages are checked once, after all calls. This is the default.
    #[default]
    Parallel,
    /// Groups of concurrent calls. Steering messages are checked between the groups.
    Batched {
        /// The number of calls in a group; 0 counts as 1.
        size: usize,
    },
}

impl ToolExecutionStrategy {
    /// Returns how many of `calls` calls run concurrently.
    #[must_use]
    pub fn group_size(self, calls: usize) -> usize {
        match self {
            Self::Sequential => 1,
            Self::Parallel => calls.max(1),
            Self::Batched { size } => size.max(1),
        }
    }
}
