//! The only callers of the tools in these tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a part of tests")]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]

pub mod random;
#[cfg(target_os = "linux")]
pub mod sandbox;
pub mod skip;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    AgentTool, CancellationToken, Environment as _, SystemEnvironment, ToolContext, ToolError, ToolResult,
};
use agent_tools::Workspace;
use serde_json::Value;

/// Long enough for anything that is to happen, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub fn context(tool: &dyn AgentTool) -> ToolContext {
    ToolContext::detached(tool.name(), Arc::new(SystemEnvironment))
}

/// Calls a tool as the loop does, which prepares the arguments first.
pub async fn call(tool: &dyn AgentTool, arguments: Value) -> Result<ToolResult, ToolError> {
    tool.execute(tool.prepare_arguments(arguments), context(tool)).await
}

/// The text of a call that works.
#[track_caller]
pub fn text(result: Result<ToolResult, ToolError>) -> String {
    let result = result.unwrap();
    assert!(!result.is_error, "{}", result.to_text());
    result.to_text()
}

/// The text of a call that does not.
#[track_caller]
pub fn failure(result: Result<ToolResult, ToolError>) -> String {
    match result {
        Ok(result) => panic!("it worked: {}", result.to_text()),
        Err(error) => error.to_string(),
    }
}

pub async fn call_cancelled(tool: &dyn AgentTool, arguments: Value) -> Result<ToolResult, ToolError> {
    let ctx = context(tool);
    ctx.cancel.cancel();
    tool.execute(arguments, ctx).await
}

/// A call that is cancelled once `when` says so.
pub async fn call_and_cancel(
    tool: &dyn AgentTool,
    arguments: Value,
    when: impl AsyncFn(),
) -> Result<ToolResult, ToolError> {
    let ctx = context(tool);
    let cancel: CancellationToken = ctx.cancel.clone();
    let (result, ()) = tokio::join!(tool.execute(arguments, ctx), async {
        when().await;
        cancel.cancel();
    });
    result
}

pub fn now_ms() -> u64 {
    SystemEnvironment.monotonic_ms()
}

/// Waits until it is so.
#[track_caller]
pub fn until(what: &str, is_so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let start = now_ms();
        while !is_so() {
            assert!(now_ms() - start < PATIENCE.as_millis() as u64, "{caller}: {what} never came");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Whether a process runs; one that is dead and only not waited for does not.
pub fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let first_thread_runs =
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']));
    // The first thread may have ended while others still hold the pipes of the process open.
    first_thread_runs || std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|all| all.count() > 1)
}

pub struct Folder {
    pub dir: tempfile::TempDir,
    pub workspace: Workspace,
}

pub fn folder() -> Folder {
    let dir = tempfile::tempdir().unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    Folder { dir, workspace }
}

impl Folder {
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub fn get(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.path().join(path)).unwrap()
    }

    /// The number that a command has written into a file.
    #[track_caller]
    pub fn number(&self, path: &str) -> u32 {
        String::from_utf8(self.get(path)).unwrap().trim().parse().unwrap()
    }

    pub fn has(&self, path: &str) -> bool {
        self.path().join(path).symlink_metadata().is_ok()
    }
}
