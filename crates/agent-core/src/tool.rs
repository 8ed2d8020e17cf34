//! Tools: what a model may ask for, what it gets back, and what a tool knows of the call.
//!
//! [`AgentTool`] is the object-safe form that the loop works with. [`Tool`] and [`tool_fn`] make one from Rust
//! types: the schema comes from the argument type, and arguments are checked before the call.
//!
//! ```
//! use agent_core::{Effects, ToolResult};
//! let result = ToolResult::text("3 files").with_details(serde_json::json!({"total": 3}));
//! assert!(!result.is_error);
//! assert_eq!(Effects::default(), Effects::Once);
//! ```

mod context;
mod definition;
mod kit;
mod result;
mod typed;
pub mod validate;

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use context::{ToolContext, ToolServices, ToolSignal, ToolUpdates};
pub use definition::{ToolDefinition, ToolDefinitions};
pub use kit::Tools;
pub use result::{ToolError, ToolResult};
pub(crate) use typed::plain_schema;
pub use typed::{FunctionTool, Tool, TypedTool, argument_schema, tool_fn};

/// A tool, as the loop sees it (REQ-021).
#[async_trait]
pub trait AgentTool: Send + Sync {
    /// The name that the model calls it by: letters, digits, `_` and `-`, at most 64.
    fn name(&self) -> &str;

    /// A name for people.
    fn label(&self) -> &str {
        self.name()
    }

    /// What it does, for the model.
    fn description(&self) -> &str;

    /// The JSON schema of its arguments, an object.
    fn parameters_schema(&self) -> Value;

    /// Runs it. The arguments fit the schema.
    ///
    /// # Errors
    /// What went wrong; the model is told.
    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError>;

    /// What a call with these arguments does to the world (X6). In doubt: [`Effects::Once`].
    fn effects(&self, arguments: &Value) -> Effects {
        let _ = arguments;
        Effects::Once
    }

    /// Whether a person must be asked before this call, and what (X5).
    fn question(&self, arguments: &Value) -> Option<String> {
        let _ = arguments;
        None
    }

    /// The longest that one call may take; wins over the agent's own limit.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Whether calls of a reply that holds this tool may run beside each other (B-099).
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Parallel
    }

    /// Puts arguments of an older or sloppier form right before they are checked (B-089).
    fn prepare_arguments(&self, arguments: Value) -> Value {
        arguments
    }
}

impl fmt::Debug for dyn AgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AgentTool").field(&self.name()).finish()
    }
}

/// What a call does to the world, which decides what a resume may do with a call that was cut off (X6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Effects {
    /// Nothing; it may be run again.
    ReadOnly,
    /// The same however often it is run.
    Idempotent,
    /// It must not be run twice without asking.
    #[default]
    Once,
}

/// Whether a tool may run beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ToolConcurrency {
    /// It may.
    #[default]
    Parallel,
    /// A reply that calls it has all its calls run one after the other.
    Sequential,
}

/// How the calls of one reply are run (REQ-045, REQ-084..086).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolExecutionStrategy {
    /// One after the other; steering is looked for after each.
    Sequential,
    /// All at once; steering is looked for once, after all.
    #[default]
    Parallel,
    /// In groups of `size` (0 counts as 1); steering is looked for between groups.
    Batched {
        /// Calls in a group.
        size: usize,
    },
}

impl ToolExecutionStrategy {
    /// How many of `calls` calls run at once.
    #[must_use]
    pub fn group_size(self, calls: usize) -> usize {
        match self {
            Self::Sequential => 1,
            Self::Parallel => calls.max(1),
            Self::Batched { size } => size.max(1),
        }
    }
}
