//! `bash`: runs a command with limits on time, output and environment.
//!
//! The command runs in its own process group. When the call ends, by exit, time-out, abort or because its future is
//! dropped, all processes that it started are ended. Standard input is empty. The environment contains few variables
//! and no API keys.
//!
//! ```
//! use std::time::Duration;
//! use agent_tools::{BashTool, Workspace};
//! let bash = BashTool::new(Workspace::unconfined())
//!     .with_timeout(Duration::from_secs(30))
//!     .with_env("CI", "1");
//! // The debug form does not contain values of the environment.
//! assert!(!format!("{bash:?}").contains("\"1\""));
//! ```

mod capture;
#[cfg(target_os = "linux")]
mod cgroup;
mod command_rules;
mod confine;
mod in_background;
pub(crate) mod marker;
mod output;
mod process;
mod run;
mod shell_words;
mod slots;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use agent_core::tool::Confinement;
use agent_core::{AgentTool, BoxFuture, Effects, Tool, ToolContext, ToolError, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub use crate::environment::INHERITED;
pub use command_rules::{DenyPattern, plain_commands, runs_only};
pub use output::BashError;
pub use slots::{CommandSlots, FILES_PER_COMMAND, MAX_COMMANDS, MAX_WAIT};

use crate::background_work::BackgroundWork;
use crate::program::{Program, ProgramError, SearchPath};
use crate::sandbox::{Sandbox, SandboxRules};
use crate::{OutputStore, Workspace};

/// The default time limit of a command.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The default of the highest time limit that the model may request.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// The maximum size of each output stream in a result: 256 KiB. The rest goes to the output store, if there is one.
pub const MAX_OUTPUT_BYTES: usize = 256 * 1024;

/// The maximum length of a command: slightly less than the 128 KiB that Linux allows for one argument.
pub const MAX_COMMAND_BYTES: usize = 128 * 1024 - 1;

/// A function that receives a command and decides whether it may run. It may wait for the user.
pub type ConfirmFn = Arc<dyn Fn(String) -> BoxFuture<'static, bool> + Send + Sync>;

/// What happens to the background processes of a command when it exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Background {
    /// They are ended with the call. This is the default.
    #[default]
    End,
    /// They keep running if the command exited by itself. A time-out, an abort and the sandbox `bwrap` still end them.
    Keep,
}

/// How the tool finds processes that left the process group of their command, for example with `setsid`.
///
/// A subreaper is not used: it is a setting of the whole process, and an adopted orphan cannot be assigned to a command,
/// so children of the surrounding program would be ended too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ProcessTracking {
    /// By a variable in their environment, on Linux only. A process that leaves the group and clears its environment
    /// keeps running, unless the sandbox `bwrap` ends it. This is the default.
    #[default]
    Marker,
    /// By a cgroup for each command, and by the variable. No process keeps running. It takes some milliseconds per
    /// command and needs cgroup v2 and the permission to create groups; without them the command is not run.
    Cgroup,
}

/// Whether commands receive the trace context of their call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TraceVariables {
    /// They do not. This is the default.
    #[default]
    Omitted,
    /// In the variables `TRACEPARENT` and `TRACESTATE`, which programs with OpenTelemetry read.
    Set,
}

/// The `bash` tool, which runs a command with `bash -c`.
#[derive(Clone)]
pub struct BashTool {
    workspace: Workspace,
    folder: Option<PathBuf>,
    timeout: Duration,
    max_timeout: Duration,
    max_output_bytes: usize,
    patterns: Vec<DenyPattern>,
    more_patterns: Vec<DenyPattern>,
    confirm: Option<ConfirmFn>,
    inherited: Vec<String>,
    set: BTreeMap<OsString, OsString>,
    background: Background,
    sandbox: Option<Sandbox>,
    store: Option<OutputStore>,
    tracking: ProcessTracking,
    slots: CommandSlots,
    work: Option<BackgroundWork>,
    trace: TraceVariables,
    /// The `bash` that was found before the first command.
    shell: Arc<OnceLock<Program>>,
}

impl BashTool {
    /// Creates a tool that runs commands in the root of this workspace. A command can leave the root and has all
    /// permissions of this process, unless a [sandbox](Self::with_sandbox) confines it.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            folder: None,
            timeout: TIMEOUT,
            max_timeout: MAX_TIMEOUT,
            max_output_bytes: MAX_OUTPUT_BYTES,
            patterns: DenyPattern::defaults(),
            more_patterns: Vec::new(),
            confirm: None,
            inherited: Vec::new(),
            set: BTreeMap::new(),
            background: Background::End,
            sandbox: None,
            store: None,
            tracking: ProcessTracking::Marker,
            slots: CommandSlots::of_process(),
            work: None,
            trace: TraceVariables::Omitted,
            shell: Arc::default(),
        }
    }

    /// Sets the folder in which commands run. The default is the root of the workspace.
    #[must_use]
    pub fn with_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the default time limit of a command. Raises the highest limit that the model may request if that is lower.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.max_timeout = self.max_timeout.max(timeout);
        self
    }

    /// Sets the highest time limit that the model may request. Lowers the default time limit if that is higher.
    #[must_use]
    pub fn with_max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = timeout;
        self.timeout = self.timeout.min(timeout);
        self
    }

    /// Sets the maximum size of each output stream in a result. The default is [`MAX_OUTPUT_BYTES`].
    #[must_use]
    pub fn with_max_output_bytes(mut self, bytes: usize) -> Self {
        self.max_output_bytes = bytes;
        self
    }

    /// Replaces [`DenyPattern::defaults`] by these patterns. Patterns that were added with [`deny`](Self::deny) remain.
    #[must_use]
    pub fn with_deny_patterns(mut self, patterns: impl IntoIterator<Item = DenyPattern>) -> Self {
        self.patterns = patterns.into_iter().collect();
        self
    }

    /// Refuses commands that match this pattern as well.
    #[must_use]
    pub fn deny(mut self, pattern: DenyPattern) -> Self {
        self.more_patterns.push(pattern);
        self
    }

    /// Sets the function that is called before each command and decides whether it runs.
    #[must_use]
    pub fn with_confirm(mut self, confirm: ConfirmFn) -> Self {
        self.confirm = Some(confirm);
        self
    }

    /// Sets an environment variable of the commands.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), value.into());
        self.shell = Arc::default();
        self
    }

    /// Lets commands inherit one more variable of this process, in addition to [`INHERITED`].
    #[must_use]
    pub fn with_inherited_env(mut self, name: impl Into<String>) -> Self {
        self.inherited.push(name.into());
        self
    }

    /// Runs commands in this sandbox. If it is not available, commands fail and are not run. It takes precedence over
    /// the sandbox of [`CodingTools`](crate::CodingTools), even if it is [`Sandbox::none`].
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self.shell = Arc::default();
        self
    }

    /// Stores output that is too large for a result in this store, and adds its key to the result. Without a store, the
    /// rest of the output is discarded.
    #[must_use]
    pub fn with_output_store(mut self, store: OutputStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets how the tool finds processes that left their process group.
    #[must_use]
    pub fn with_process_tracking(mut self, tracking: ProcessTracking) -> Self {
        self.tracking = tracking;
        self
    }

    /// Sets the bound on the number of commands that run at once. The default is [`CommandSlots::of_process`]. A command
    /// that waits can be cancelled, and its time limit begins when it starts.
    #[must_use]
    pub fn with_slots(mut self, slots: CommandSlots) -> Self {
        self.slots = slots;
        self
    }

    /// Sets what happens to the background processes of a command when it exits.
    #[must_use]
    pub fn with_background(mut self, background: Background) -> Self {
        self.background = background;
        self
    }

    /// Sets whether commands receive the trace context of their call in their environment. There is one only if the agent is
    /// connected to a tracing system.
    #[must_use]
    pub fn with_trace_variables(mut self, trace: TraceVariables) -> Self {
        self.trace = trace;
        self
    }

    /// Lets the model start commands in the background, with the argument `background`. They are bounded by this work and
    /// not by the [slots](Self::with_slots), and their output goes to its store. Default: none, and no such argument.
    #[must_use]
    pub fn with_background_work(mut self, work: BackgroundWork) -> Self {
        self.work = Some(work);
        self
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref().or_else(|| self.workspace.root())
    }

    fn deny_patterns(&self) -> impl Iterator<Item = &DenyPattern> {
        self.patterns.iter().chain(&self.more_patterns)
    }

    /// Returns the shell. It is looked up once, outside of the folders that commands and file tools can write to.
    fn shell(&self, path: Option<&OsString>) -> Result<Program, ProgramError> {
        if let Some(shell) = self.shell.get() {
            return Ok(shell.clone());
        }
        let of_sandbox = self.sandbox().rules().into_iter().flat_map(SandboxRules::writable);
        let writable = of_sandbox.chain(self.workspace.root().map(Path::to_path_buf));
        let shell =
            SearchPath::new(path.map(OsString::as_os_str).unwrap_or_default(), writable).find("bash")?;
        Ok(self.shell.get_or_init(|| shell).clone())
    }

    fn sandbox(&self) -> &Sandbox {
        static NONE: LazyLock<Sandbox> = LazyLock::new(Sandbox::none);
        self.sandbox.as_ref().unwrap_or(&NONE)
    }

    /// Sets the sandbox unless the tool has one.
    pub(crate) fn or_sandbox(mut self, sandbox: Option<&Sandbox>) -> Self {
        if self.sandbox.is_none() {
            self.sandbox = sandbox.cloned();
            self.shell = Arc::default();
        }
        self
    }

    pub(crate) fn output_store(&self) -> Option<&OutputStore> {
        self.store.as_ref()
    }

    pub(crate) fn background_work(&self) -> Option<&BackgroundWork> {
        self.work.as_ref()
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
            .field("patterns", &self.patterns)
            .field("more_patterns", &self.more_patterns)
            .field("confirm", &self.confirm.is_some())
            .field("inherited", &self.inherited)
            .field("set", &self.set.keys())
            .field("background", &self.background)
            .field("sandbox", &self.sandbox)
            .field("store", &self.store)
            .field("tracking", &self.tracking)
            .field("slots", &self.slots)
            .field("work", &self.work)
            .field("trace", &self.trace)
            .finish()
    }
}

/// The arguments of `bash`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(transform = crate::arguments::plain)]
#[non_exhaustive]
pub struct BashArgs {
    /// The command to run
    pub command: String,
    /// The time limit in seconds
    #[schemars(range(min = 1))]
    pub timeout: Option<u64>,
    /// Run the command in the background: the call returns at once, and the result comes in a later message
    pub background: Option<bool>,
}

impl BashArgs {
    /// Returns the time limit. A limit above `max` is an error and is not lowered, so that the model knows.
    fn limit(&self, default: Duration, max: Duration) -> Result<Duration, BashError> {
        match self.timeout.map(Duration::from_secs) {
            None => Ok(default),
            Some(limit) if !limit.is_zero() && limit <= max => Ok(limit),
            Some(_) => Err(BashError::TimeoutRange { max: max.as_secs() }),
        }
    }
}

impl Tool for BashTool {
    const NAME: &'static str = "bash";
    type Args = BashArgs;
    type Output = ToolResult;

    fn label(&self) -> &str {
        "Execute Command"
    }

    fn prepare_arguments(&self, arguments: serde_json::Value) -> serde_json::Value {
        crate::arguments::without_blanks(arguments, &["timeout", "background"])
    }

    fn description(&self) -> &str {
        self.sandbox().bash_description()
    }

    fn parameters_schema(&self) -> Value {
        let mut schema = agent_core::argument_schema::<BashArgs>();
        if let Some(timeout) = schema.pointer_mut("/properties/timeout/description") {
            let (default, max) = (output::seconds(self.timeout), output::seconds(self.max_timeout));
            let range = format!("Default: {default}, at most {max}");
            *timeout = format!("{}. {range}", timeout.as_str().unwrap_or_default()).into();
        }
        match (&self.work, schema.pointer_mut("/properties")) {
            (None, Some(Value::Object(properties))) => drop(properties.remove("background")),
            (Some(work), Some(Value::Object(properties))) => {
                if let Some(text) =
                    properties.get_mut("background").and_then(|one| one.get_mut("description"))
                {
                    let limit = output::seconds(work.max_duration());
                    let range = format!("Its timeout is {limit} unless it is given, and at most {limit}");
                    *text = format!("{}. {range}", text.as_str().unwrap_or_default()).into();
                }
            }
            _ => {}
        }
        schema
    }

    fn effects(&self, _: &BashArgs) -> Effects {
        Effects::Once
    }

    fn working_directory(&self) -> Option<PathBuf> {
        self.folder().map(Path::to_path_buf).or_else(|| std::env::current_dir().ok())
    }

    fn confinement(&self) -> Option<Confinement> {
        Some(confine::confinement(self))
    }

    fn confined(&self, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
        confine::confined(self, by)
    }

    /// Slightly longer than the highest limit of a command and the maximum time that it waits for others, so that the
    /// command's own limit applies first and its output is preserved. With a confirmation the tool sets no limit, because the user may take long.
    fn timeout(&self) -> Option<Duration> {
        let grace = Duration::from_secs(10);
        self.confirm.is_none().then(|| self.max_timeout.saturating_add(MAX_WAIT).saturating_add(grace))
    }

    async fn call(&self, args: BashArgs, ctx: &ToolContext) -> Result<ToolResult, ToolError> {
        run::run(self, args, ctx).await
    }
}
