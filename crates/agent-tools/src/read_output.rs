//! `read_output`: a part of a big output that another tool has cut.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::{OutputStore, ReadOutputTool};
//! let tool = ReadOutputTool::new(OutputStore::new());
//! assert_eq!(tool.name(), "read_output");
//! ```

mod args;
mod call;
mod error;
mod output;

#[cfg(test)]
mod tests;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::ReadOutputArgs;
pub use error::ReadOutputError;

use crate::OutputStore;

/// How much of an output one call shows when the model does not say: 32 KiB.
pub const DEFAULT_PAGE_BYTES: usize = 32 * 1024;

/// The most that one call shows: 256 KiB. A higher limit means this one; the result says what it shows.
pub const MAX_PAGE_BYTES: usize = 256 * 1024;

/// The `read_output` tool.
#[derive(Debug, Clone)]
pub struct ReadOutputTool {
    store: OutputStore,
}

impl ReadOutputTool {
    /// Reads outputs of this store: the one that the other tools were given.
    #[must_use]
    pub fn new(store: OutputStore) -> Self {
        Self { store }
    }
}

#[async_trait]
impl AgentTool for ReadOutputTool {
    fn name(&self) -> &str {
        "read_output"
    }

    fn label(&self) -> &str {
        "Read Output"
    }

    fn description(&self) -> &str {
        "Read a part of an earlier tool output that was too big to be shown whole. The result that was cut names the key. \
         Offsets are bytes."
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, ReadOutputArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::ReadOnly
    }
}
