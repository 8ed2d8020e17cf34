//! `list_files`: the files below a folder.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::{ListFilesTool, Workspace};
//! let tool = ListFilesTool::new(Workspace::unconfined()).with_max_results(50);
//! assert_eq!(tool.label(), "List Files");
//! ```

mod args;
mod call;
mod error;
mod output;

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::ListFilesArgs;
pub use error::ListFilesError;

use crate::Workspace;

/// How many files are shown (REQ-105).
pub const MAX_RESULTS: usize = 200;

/// How many folders deep a listing goes when the model does not say: files of the folder itself are at depth 1.
pub const DEFAULT_DEPTH: usize = 3;

/// The longest that a listing may take (REQ-105).
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The `list_files` tool (REQ-051).
#[derive(Debug, Clone)]
pub struct ListFilesTool {
    workspace: Workspace,
    max_results: usize,
    timeout: Duration,
}

impl ListFilesTool {
    /// Lists files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, max_results: MAX_RESULTS, timeout: TIMEOUT }
    }

    /// Another bound than [`MAX_RESULTS`].
    #[must_use]
    pub fn with_max_results(mut self, files: usize) -> Self {
        self.max_results = files;
        self
    }

    /// Another bound than [`TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Default for ListFilesTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

#[async_trait]
impl AgentTool for ListFilesTool {
    fn name(&self) -> &str {
        "list_files"
    }

    fn label(&self) -> &str {
        "List Files"
    }

    fn description(&self) -> &str {
        "List the files below a folder, sorted. What .gitignore excludes and the folders target, .git and \
         node_modules are left out; hidden files are shown."
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, ListFilesArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::ReadOnly
    }
}
