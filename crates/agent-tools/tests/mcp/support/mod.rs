//! What the tests share.

pub mod http_server;
pub mod identity_provider;
pub mod many;
pub mod raw;
pub mod raw_http;
pub mod server;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::{
    AgentTool, Environment as _, SystemEnvironment, ToolContext, ToolError, ToolResult, ToolSignal,
    ToolUpdates,
};
use agent_tools::mcp::{McpClient, McpServer, McpToolAdapter};
use serde_json::Value;

/// Long enough for anything that is to happen, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is a child: this program, in this mode.
pub fn child(mode: &str) -> McpServer {
    McpServer::stdio("test", std::env::current_exe().unwrap())
        .with_args(["support::server::process", "--exact", "--nocapture"])
        .with_env(server::MODE, mode)
}

/// The usual server, which writes what it sees into this folder.
pub fn child_in(folder: &Path) -> McpServer {
    child("sdk").with_env(server::FOLDER, folder)
}

pub async fn connect(server: McpServer) -> McpClient {
    McpClient::connect(server).await.unwrap()
}

/// All tools of a server, by the names that a model would see.
pub async fn tools(client: &McpClient) -> Vec<McpToolAdapter> {
    McpToolAdapter::from_client(client).await.unwrap()
}

pub async fn tool(client: &McpClient, name: &str) -> McpToolAdapter {
    let tools = tools(client).await;
    let names: BTreeSet<&str> = tools.iter().map(|tool| tool.info().name.as_str()).collect();
    assert!(names.contains(name), "there is no {name} among {names:?}");
    tools.into_iter().find(|tool| tool.info().name == name).unwrap()
}

pub fn context(tool: &dyn AgentTool) -> ToolContext {
    ToolContext::detached(tool.name(), Arc::new(SystemEnvironment))
}

/// A context that keeps what the tool says while it runs.
pub fn listening(tool: &dyn AgentTool) -> (ToolContext, Arc<Mutex<Vec<ToolSignal>>>) {
    let mut ctx = context(tool);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    ctx.updates = ToolUpdates::new(move |signal| ear.lock().unwrap().push(signal));
    (ctx, heard)
}

pub async fn call(client: &McpClient, name: &str, arguments: Value) -> Result<ToolResult, ToolError> {
    let tool = tool(client, name).await;
    let ctx = context(&tool);
    tool.execute(arguments, ctx).await
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

/// The lines that a server wrote into a file.
pub fn lines(folder: &Path, file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The processes that a server wrote down.
pub fn pids(folder: &Path, file: &str) -> Vec<u32> {
    lines(folder, file).iter().map(|line| line.parse().unwrap()).collect()
}

/// Ends a process as the kernel does when memory is short.
pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
