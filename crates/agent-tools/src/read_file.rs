//! `read_file`: numbered lines of a text file, or a picture.
//!
//! ```
//! use agent_core::{AgentTool, Effects};
//! use agent_tools::{ReadFileTool, Workspace};
//! let tool = ReadFileTool::new(Workspace::unconfined());
//! assert_eq!(tool.name(), "read_file");
//! assert_eq!(tool.effects(&serde_json::json!({"path": "a.txt"})), Effects::ReadOnly);
//! ```

mod args;
mod call;
mod error;
pub(crate) mod image;
mod output;
mod window;

#[cfg(test)]
mod tests;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::ReadFileArgs;
pub use error::ReadFileError;

use crate::Workspace;

/// The largest text file that is read without `offset` or `limit`, and the most text that one call gives: 1 MiB
/// (REQ-098). With `offset` or `limit` files of any size can be read.
pub const MAX_TEXT_BYTES: u64 = 1024 * 1024;

/// The largest picture: 20 MiB (REQ-098).
pub const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// The most of one line that is kept: 64 KiB. The rest is left out, with a mark that says so.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// The `read_file` tool (REQ-048).
#[derive(Debug, Clone)]
pub struct ReadFileTool {
    workspace: Workspace,
    max_text_bytes: u64,
}

impl ReadFileTool {
    /// Reads files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, max_text_bytes: MAX_TEXT_BYTES }
    }

    /// Another bound than [`MAX_TEXT_BYTES`].
    #[must_use]
    pub fn with_max_text_bytes(mut self, bytes: u64) -> Self {
        self.max_text_bytes = bytes;
        self
    }
}

impl Default for ReadFileTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

#[async_trait]
impl AgentTool for ReadFileTool {
    fn name(&self) -> &str {
        "read_file"
    }

    fn label(&self) -> &str {
        "Read File"
    }

    fn description(&self) -> &str {
        "Read a file. Text comes with line numbers; for a large file use offset and limit to read a part of it. \
         Pictures (PNG, JPEG, GIF, WebP, BMP) are shown."
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, ReadFileArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::ReadOnly
    }
}
