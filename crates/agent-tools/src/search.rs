//! `search`: lines of files that fit a regular expression.
//!
//! It runs in this process on the libraries of ripgrep: nothing needs to be installed, no argument can be taken for
//! an option of a program, and no configuration file of a user plays a part.
//!
//! ```
//! use agent_core::AgentTool;
//! use agent_tools::SearchTool;
//! assert_eq!(SearchTool::default().parameters_schema()["required"], serde_json::json!(["pattern"]));
//! ```

mod args;
mod call;
mod error;
mod output;
mod scan;

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_core::{AgentTool, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::SearchArgs;
pub use error::SearchError;

use crate::Workspace;

/// How many matching lines are shown, over all files.
pub const MAX_MATCHES: usize = 50;

/// The longest that a search may take.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// How many bytes of a line are shown.
pub const MAX_LINE_BYTES: usize = 500;

/// The longest line that is searched: 8 MiB. A file with a longer one is counted as unreadable.
pub const MAX_SEARCHED_LINE_BYTES: usize = 8 * 1024 * 1024;

/// The `search` tool (REQ-052).
#[derive(Debug, Clone)]
pub struct SearchTool {
    workspace: Workspace,
    max_matches: usize,
    timeout: Duration,
}

impl SearchTool {
    /// Searches files of this workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, max_matches: MAX_MATCHES, timeout: TIMEOUT }
    }

    /// Another bound than [`MAX_MATCHES`].
    #[must_use]
    pub fn with_max_matches(mut self, matches: usize) -> Self {
        self.max_matches = matches;
        self
    }

    /// Another bound than [`TIMEOUT`].
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Default for SearchTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

#[async_trait]
impl AgentTool for SearchTool {
    fn name(&self) -> &str {
        "search"
    }

    fn label(&self) -> &str {
        "Search Files"
    }

    fn description(&self) -> &str {
        "Search files for a regular expression, line by line. Gives path, line number and line. What .gitignore \
         excludes, binary files and the folders target, .git and node_modules are left out."
    }

    fn parameters_schema(&self) -> Value {
        args::schema()
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, SearchArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::ReadOnly
    }
}
