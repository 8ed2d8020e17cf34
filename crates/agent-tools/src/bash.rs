//! `bash`: a command, with bounds on time, output and environment.
//!
//! The command runs in a process group of its own. When the call ends, in whatever way, all that it started ends:
//! by time-out, by abort, by dropping the call's future, and by default also when the shell itself is done.
//! It reads end of file from its standard input, and sees a small environment without anybody's API keys (D24).
//!
//! ```
//! use std::time::Duration;
//! use agent_tools::{BashTool, Workspace};
//! let bash = BashTool::new(Workspace::unconfined())
//!     .with_timeout(Duration::from_secs(30))
//!     .with_env("CI", "1");
//! // Values of the environment are nobody's business.
//! assert!(!format!("{bash:?}").contains("\"1\""));
//! ```

mod args;
mod call;
mod capture;
#[cfg(target_os = "linux")]
mod cgroup;
mod deny;
pub(crate) mod environment;
mod error;
mod output;
mod process;
mod runs_only;
mod shell_words;
pub(crate) mod strays;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agent_core::{AgentTool, BoxFuture, Effects, ToolContext, ToolError, ToolResult};
use async_trait::async_trait;
use serde_json::Value;

pub use args::BashArgs;
pub use deny::DenyPattern;
pub use environment::INHERITED;
pub use error::BashError;
pub use runs_only::runs_only;

use crate::sandbox::Sandbox;
use crate::{OutputStore, Workspace};

/// The longest that a command may take when the model does not say.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The longest that the model may ask for.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// How much of each output stream is shown: 256 KiB (REQ-096). The rest goes to the output store, where there is one.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// The longest command: a little less than the 128 KiB that Linux allows for one argument.
pub const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// Asked before a command runs, with the command; the answer may take its time (REQ-097).
pub type ConfirmFn = Arc<dyn Fn(String) -> BoxFuture<'static, bool> + Send + Sync>;

/// What happens to processes that a command left running in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Background {
    /// They are ended with the call.
    #[default]
    End,
    /// They go on when the command ended by itself. Time-out and abort end them all the same, and so does the sandbox
    /// `bwrap`.
    Keep,
}

/// How processes are found that left the process group of their command (`setsid`).
///
/// There is no third way by a sub-reaper: it is a setting of the whole process, and an orphan that is adopted does not
/// say which command it comes from, so children of the program around would be ended too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Strays {
    /// By a variable of their environment. On Linux only. A process that leaves the group and clears its environment
    /// lives on, unless the sandbox `bwrap` ends it.
    #[default]
    Marked,
    /// By a cgroup for each command, and by the variable. Nothing lives on. It costs some milliseconds for each command,
    /// and needs cgroup v2 and the right to make groups; without them the command is not run.
    Cgroup,
}

/// The `bash` tool (REQ-047).
#[derive(Clone)]
pub struct BashTool {
    workspace: Workspace,
    folder: Option<PathBuf>,
    timeout: Duration,
    max_timeout: Duration,
    max_output_bytes: usize,
    deny: Vec<DenyPattern>,
    confirm: Option<ConfirmFn>,
    inherited: Vec<String>,
    set: BTreeMap<OsString, OsString>,
    background: Background,
    sandbox: Sandbox,
    store: Option<OutputStore>,
    strays: Strays,
}

impl BashTool {
    /// Runs commands in the root of this workspace. A command can leave it and do all that this process can, unless a
    /// [sandbox](Self::with_sandbox) holds it.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            folder: None,
            timeout: TIMEOUT,
            max_timeout: MAX_TIMEOUT,
            max_output_bytes: MAX_OUTPUT_BYTES,
            deny: DenyPattern::defaults(),
            confirm: None,
            inherited: Vec::new(),
            set: BTreeMap::new(),
            background: Background::End,
            sandbox: Sandbox::none(),
            store: None,
            strays: Strays::Marked,
        }
    }

    /// Runs commands in this folder and not in the root of the workspace.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The longest that a command may take when the model does not say. Raises the other bound where needed.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.max_timeout = self.max_timeout.max(timeout);
        self
    }

    /// The longest that the model may ask for. Lowers the other bound where needed.
    #[must_use]
    pub fn with_max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = timeout;
        self.timeout = self.timeout.min(timeout);
        self
    }

    /// Another bound than [`MAX_OUTPUT_BYTES`], for each stream.
    #[must_use]
    pub fn with_max_output_bytes(mut self, bytes: usize) -> Self {
        self.max_output_bytes = bytes;
        self
    }

    /// These patterns in place of [`DenyPattern::defaults`] (REQ-139).
    #[must_use]
    pub fn with_deny_patterns(mut self, patterns: impl IntoIterator<Item = DenyPattern>) -> Self {
        self.deny = patterns.into_iter().collect();
        self
    }

    /// One more pattern.
    #[must_use]
    pub fn deny(mut self, pattern: DenyPattern) -> Self {
        self.deny.push(pattern);
        self
    }

    /// Asks before each command.
    #[must_use]
    pub fn with_confirm(mut self, confirm: ConfirmFn) -> Self {
        self.confirm = Some(confirm);
        self
    }

    /// Sets a variable for commands.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), value.into());
        self
    }

    /// Hands one more variable of this process on to commands, besides [`INHERITED`].
    #[must_use]
    pub fn with_inherited_env(mut self, name: impl Into<String>) -> Self {
        self.inherited.push(name.into());
        self
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref().or_else(|| self.workspace.root())
    }

    /// Runs commands in this sandbox, or not at all.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Keeps what is over [`MAX_OUTPUT_BYTES`] in this store, and tells the model its key. Without a store it is thrown
    /// away.
    #[must_use]
    pub fn with_output_store(mut self, store: OutputStore) -> Self {
        self.store = Some(store);
        self
    }

    /// How processes that left their group are found.
    #[must_use]
    pub fn with_strays(mut self, strays: Strays) -> Self {
        self.strays = strays;
        self
    }

    /// What happens to processes that a command leaves in the background.
    #[must_use]
    pub fn with_background(mut self, background: Background) -> Self {
        self.background = background;
        self
    }
}

impl Default for BashTool {
    fn default() -> Self {
        Self::new(Workspace::unconfined())
    }
}

impl fmt::Debug for BashTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BashTool")
            .field("workspace", &self.workspace)
            .field("folder", &self.folder)
            .field("timeout", &self.timeout)
            .field("max_timeout", &self.max_timeout)
            .field("max_output_bytes", &self.max_output_bytes)
            .field("deny", &self.deny)
            .field("confirm", &self.confirm.is_some())
            .field("inherited", &self.inherited)
            .field("set", &self.set.keys())
            .field("background", &self.background)
            .field("sandbox", &self.sandbox)
            .field("store", &self.store)
            .field("strays", &self.strays)
            .finish()
    }
}

#[async_trait]
impl AgentTool for BashTool {
    fn name(&self) -> &str {
        "bash"
    }

    fn label(&self) -> &str {
        "Execute Command"
    }

    fn description(&self) -> &str {
        self.sandbox.bash_description()
    }

    fn parameters_schema(&self) -> Value {
        args::schema(self.timeout, self.max_timeout)
    }

    async fn execute(&self, arguments: Value, ctx: ToolContext) -> Result<ToolResult, ToolError> {
        call::run(self, BashArgs::parse(arguments)?, &ctx).await
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::Once
    }

    /// A little more than a command may take, so that the command's own limit is met first and its output is kept.
    /// With a confirmation the tool sets no limit: a person may take long.
    fn timeout(&self) -> Option<Duration> {
        let room = Duration::from_secs(10);
        self.confirm.is_none().then(|| self.max_timeout.saturating_add(room))
    }
}
