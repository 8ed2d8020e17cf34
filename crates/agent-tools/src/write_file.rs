//! `write_file`: a whole file, in one step.
//!
//! ```
//! use agent_core::{AgentTool, Effects};
//! use agent_tools::WriteFileTool;
//! // Writing the same content again changes nothing, so a resume may do it.
//! assert_eq!(WriteFileTool::default().effects(&serde_json::Value::Null), Effects::Idempotent);
//! ```

mod args;
mod call;
mod error;
mod output;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::WriteFileArgs;
pub use error::WriteFileError;

use crate::Workspace;

/// The `write_file` tool (REQ-049).
#[derive(Debug, Clone, Default)]
pub struct WriteFileTool {
    workspace: Workspace,
}

impl WriteFileTool {
    /// Writes files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

#[async_trait]
impl AgentTool for WriteFileTool {
    fn name(&self) -> &str {
        "write_file"
    }

    fn label(&self) -> &str {
        "Write File"
    }

    fn description(&self) -> &str {
        "Write a file. Missing folders are made; a file that exists is replaced as a whole. To change a part of a \
         file use edit_file."
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, WriteFileArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::Idempotent
    }
}
