//! The built-in tools together, with one sandbox and one store of outputs.
//!
//! ```
//! use agent_tools::{CodingTools, Workspace};
//! let workspace = Workspace::open(std::env::temp_dir())?;
//! let tools = CodingTools::new(workspace).tools();
//! let names: Vec<_> = tools.iter().map(|tool| tool.name()).collect();
//! assert_eq!(names, ["bash", "read_file", "write_file", "edit_file", "list_files", "search", "read_output"]);
//! # Ok::<(), agent_tools::PathError>(())
//! ```

use std::sync::Arc;

use agent_core::AgentTool;

use crate::{BashTool, OutputStore, ReadOutputTool, Sandbox, Workspace};

/// The six tools of a workspace, and `read_output` for what `bash` has cut.
#[derive(Debug, Clone)]
pub struct CodingTools {
    workspace: Workspace,
    bash: BashTool,
    store: OutputStore,
}

impl CodingTools {
    /// For this workspace, with the usual bounds, without a sandbox, and with a store of its own.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self { bash: BashTool::new(workspace.clone()), workspace, store: OutputStore::new() }
    }

    /// Runs commands in this sandbox, or not at all. The file tools run in this process and are held by the workspace.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.bash = self.bash.with_sandbox(sandbox);
        self
    }

    /// This shell in place of the usual one. It gets the store of this set.
    #[must_use]
    pub fn with_bash(mut self, bash: BashTool) -> Self {
        self.bash = bash;
        self
    }

    /// Keeps big outputs in this store, which may be given to MCP servers and other tools too.
    #[must_use]
    pub fn with_output_store(mut self, store: OutputStore) -> Self {
        self.store = store;
        self
    }

    /// The seven tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        let mut tools = self.workspace.tools();
        let bash: Arc<dyn AgentTool> = Arc::new(self.bash.clone().with_output_store(self.store.clone()));
        if let Some(first) = tools.first_mut() {
            *first = bash;
        }
        tools.push(Arc::new(ReadOutputTool::new(self.store.clone())));
        tools
    }
}
