//! The built-in tools together, with one sandbox and one output store.
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

use crate::background_work::{BackgroundTool, BackgroundWork};
use crate::{
    ApplyPatchTool, AskUserTool, BashTool, EditFileTool, ListFilesTool, MemoryTool, OutputStore, PlanTool,
    ReadFileTool, ReadOutputTool, Sandbox, SearchTool, Workspace, WriteFileTool,
};

/// Builds the six tools of a workspace, and `read_output` for outputs that `bash` has truncated. Further tools are added by name.
///
/// The settings can be made in any order; none discards another.
#[derive(Debug, Clone)]
pub struct CodingTools {
    workspace: Workspace,
    bash: BashTool,
    sandbox: Option<Sandbox>,
    store: Option<OutputStore>,
    work: Option<BackgroundWork>,
    added: Vec<Arc<dyn AgentTool>>,
}

impl CodingTools {
    /// Creates the tools for this workspace, with the default limits and without a sandbox.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self {
            bash: BashTool::new(workspace.clone()),
            workspace,
            sandbox: None,
            store: None,
            work: None,
            added: Vec::new(),
        }
    }

    /// Runs the commands of `bash` in this sandbox, unless the tool passed to [`with_bash`](Self::with_bash) has its own.
    /// If the sandbox is not available, commands fail and are not run. The file tools run in this process and are
    /// confined by the workspace.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Uses this `bash` tool instead of the default one. It keeps its own sandbox if one was set on it, and gets the
    /// sandbox of these tools otherwise.
    #[must_use]
    pub fn with_bash(mut self, bash: BashTool) -> Self {
        self.bash = bash;
        self
    }

    /// Stores large outputs in this store, which can also be given to MCP servers and other tools. It takes precedence
    /// over the store of the `bash` tool, because `read_output` reads from one store. The default is the store of the
    /// `bash` tool, or a new one.
    #[must_use]
    pub fn with_output_store(mut self, store: OutputStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Lets `bash` start commands in the background, and adds the tool `background`. Truncated output is then kept in the
    /// store of this work, whatever other store is set.
    #[must_use]
    pub fn with_background_work(mut self, work: BackgroundWork) -> Self {
        self.work = Some(work);
        self
    }

    /// Adds `apply_patch`, which changes several files of the workspace by one patch. GPT models were trained on its format.
    #[must_use]
    pub fn with_apply_patch(self) -> Self {
        let tool = ApplyPatchTool::new(self.workspace.clone());
        self.with_added(tool)
    }

    /// Adds `plan`, which shows the steps of the work.
    #[must_use]
    pub fn with_plan(self) -> Self {
        self.with_added(PlanTool::new())
    }

    /// Adds `ask_user`, which suspends the run until the user has answered. Leave it out where no user answers.
    #[must_use]
    pub fn with_ask_user(self) -> Self {
        self.with_added(AskUserTool::new())
    }

    /// Adds `memory` with this folder.
    #[must_use]
    pub fn with_memory(self, memory: MemoryTool) -> Self {
        self.with_added(memory)
    }

    /// Adds `web_fetch`, which reads pages of the web.
    #[cfg(feature = "web")]
    #[must_use]
    pub fn with_web_fetch(self, web_fetch: crate::WebFetchTool) -> Self {
        self.with_added(web_fetch)
    }

    /// Adds a tool in place of one with the same name.
    fn with_added(mut self, tool: impl AgentTool + 'static) -> Self {
        self.added.retain(|added| added.name() != tool.name());
        self.added.push(Arc::new(tool));
        self
    }

    /// Returns the seven tools, and those that were added.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        let work = self.work.as_ref().or(self.bash.background_work());
        let store = work.map(BackgroundWork::output_store).or(self.store.as_ref());
        let store = store.or(self.bash.output_store()).cloned().unwrap_or_default();
        let mut bash = self.bash.clone().or_sandbox(self.sandbox.as_ref()).with_output_store(store.clone());
        if let Some(work) = work {
            bash = bash.with_background_work(work.clone());
        }
        let mut tools = self.workspace.tools();
        if let Some(first) = tools.first_mut() {
            *first = Arc::new(bash);
        }
        tools.push(Arc::new(ReadOutputTool::new(store)));
        if let Some(work) = work {
            tools.push(Arc::new(BackgroundTool::new(work.clone())));
        }
        tools.extend(self.added.iter().cloned());
        tools
    }
}

/// The built-in tools of a workspace with their default settings.
impl Workspace {
    /// Returns the six built-in tools for this workspace, in the order of [`default_tools`](crate::default_tools).
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        vec![
            Arc::new(BashTool::new(self.clone())),
            Arc::new(ReadFileTool::new(self.clone())),
            Arc::new(WriteFileTool::new(self.clone())),
            Arc::new(EditFileTool::new(self.clone())),
            Arc::new(ListFilesTool::new(self.clone())),
            Arc::new(SearchTool::new(self.clone())),
        ]
    }

    /// Returns the tools that change nothing: `read_file`, `list_files`, `search`.
    #[must_use]
    pub fn read_only_tools(&self) -> Vec<Arc<dyn AgentTool>> {
        vec![
            Arc::new(ReadFileTool::new(self.clone())),
            Arc::new(ListFilesTool::new(self.clone())),
            Arc::new(SearchTool::new(self.clone())),
        ]
    }
}
