//! `edit_file`: text in a file for other text, and not a byte more.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::EditFileTool;
//! // One replacement, or many: both forms are understood, and some sloppy ones.
//! let sloppy = serde_json::json!({"path": "a.rs", "oldText": "x", "newText": "y"});
//! let put_right = EditFileTool::default().prepare_arguments(sloppy);
//! assert_eq!(put_right, serde_json::json!({"path": "a.rs", "old_text": "x", "new_text": "y"}));
//! ```

mod apply;
mod args;
mod call;
mod error;
mod find;
mod hint;
mod normal;
mod output;

#[cfg(test)]
mod tests;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::{EditFileArgs, Replacement};
pub use error::EditFileError;

use crate::Workspace;

/// The largest file that is edited: 8 MiB. The whole file is held in memory, some ten times over while it is searched.
pub const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The most replacements in one call.
pub const MAX_EDITS: usize = 200;

/// The `edit_file` tool (REQ-050).
#[derive(Debug, Clone, Default)]
pub struct EditFileTool {
    workspace: Workspace,
}

impl EditFileTool {
    /// Edits files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace }
    }
}

#[async_trait]
impl AgentTool for EditFileTool {
    fn name(&self) -> &str {
        "edit_file"
    }

    fn label(&self) -> &str {
        "Edit File"
    }

    fn description(&self) -> &str {
        "Replace text in a file. Give old_text and new_text, or several of them as edits. Each old_text must be in \
         the file exactly once: add lines around it where needed. All edits of a call refer to the file as it was \
         before the call and must not overlap. Use write_file for new files."
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, EditFileArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::Once
    }

    fn prepare_arguments(&self, arguments: Value) -> Value {
        args::put_right(arguments)
    }
}
