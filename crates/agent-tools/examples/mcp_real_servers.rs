//! Calls every tool of third-party servers through turns of an agent, and kills the servers in between.
//!
//! ```text
//! cargo run -p looptree-tools --features mcp --example mcp_real_servers -- \
//!     everything=node_modules/.bin/mcp-server-everything filesystem=node_modules/.bin/mcp-server-filesystem \
//!     time=venv/bin/mcp-server-time git=venv/bin/mcp-server-git
//! ```
//!
//! Prints a line for each check. The exit code is 1 if one failed. Tested with server-everything and server-filesystem
//! 2026.8.31 and with mcp-server-time and mcp-server-git 2026.10.19.
#![allow(clippy::print_stdout, reason = "what a program is for")]

use agent_core::compat::SeedSetters as _;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply};
use agent_core::{AgentEvent, BasicAgent, Message, ModelConfig, SystemEnvironment, ToolExecutionStrategy};
use agent_tools::mcp::{McpServer, McpServers, StartPolicy, WithMcp as _, accept_defaults};
use serde_json::{Value, json};

/// The output if a server cannot be tested.
type Failure = Box<dyn std::error::Error>;

/// The expected result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Result,
    /// The server refuses the call, and the model receives the refusal.
    Error,
}

struct Call {
    tool: &'static str,
    arguments: Value,
    wanted: Wanted,
}

fn call(tool: &'static str, arguments: Value) -> Call {
    Call { tool, arguments, wanted: Wanted::Result }
}

fn refused(tool: &'static str, arguments: Value) -> Call {
    Call { tool, arguments, wanted: Wanted::Error }
}

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut failed = 0;
    for argument in std::env::args().skip(1) {
        let (name, program) = argument.split_once('=').ok_or("write NAME=PROGRAM")?;
        let folder = tempfile::tempdir()?;
        let (server, calls) = match name {
            "everything" => everything(program),
            "filesystem" => filesystem(program, folder.path())?,
            "time" => time(program),
            "git" => git(program, folder.path()).await?,
            other => return Err(format!("there are no calls for `{other}`").into()),
        };
        for (check, result) in checks(server, calls).await {
            let word = if result.is_ok() { "passed" } else { "FAILED" };
            println!("{name:<10}  {check:<34}  {word}  {}", result.clone().unwrap_or_else(|why| why));
            failed += usize::from(result.is_err());
        }
    }
    println!("\n{failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes all calls sequentially in one turn, then kills the server and repeats the first call.
async fn checks(server: McpServer, calls: Vec<Call>) -> Vec<(String, Result<String, String>)> {
    let mut found = Vec::new();
    let servers = match McpServers::start([server], StartPolicy::Fail).await {
        Ok(servers) => servers,
        Err(error) => return vec![("start".to_owned(), Err(error.to_string()))],
    };
    let Some(client) = servers.clients().next().cloned() else { return found };
    let listed = client.list_tools().await.map(|list| list.tools).unwrap_or_default();
    for tool in &listed {
        if !calls.iter().any(|call| call.tool == tool.name) {
            found.push((tool.name.clone(), Err("no call is prepared for this tool".to_owned())));
        }
    }
    let (results, progress) = turn(&servers, &calls).await;
    for (place, call) in calls.iter().enumerate() {
        let result = match results.get(&place.to_string()) {
            None => Err("it has no result".to_owned()),
            Some((text, is_error)) if *is_error == (call.wanted == Wanted::Error) => Ok(start_of(text)),
            Some((text, _)) => Err(text.clone()),
        };
        found.push((call.tool.to_owned(), result));
    }
    if calls.iter().any(|call| call.tool == "trigger-long-running-operation") {
        let said = format!("{progress} events");
        found.push(("progress".to_owned(), if progress >= 4 { Ok(said) } else { Err(said) }));
    }
    if let (Some(id), Some(first)) = (client.process_id(), calls.into_iter().next()) {
        let again = [first];
        found.push((
            "killed, then called".to_owned(),
            match kill(id) {
                Err(error) => Err(error.to_string()),
                Ok(()) => {
                    while client.process_id().is_some() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    match turn(&servers, &again).await.0.remove("0") {
                        Some((text, false)) => Ok(start_of(&text)),
                        Some((text, true)) => Err(text),
                        None => Err("it has no result".to_owned()),
                    }
                }
            },
        ));
    }
    servers.close().await;
    found
}

/// Returns the results by the number of their call, and the number of progress notifications.
async fn turn(servers: &McpServers, calls: &[Call]) -> (BTreeMap<String, (String, bool)>, usize) {
    let mut reply = ScriptedReply::new();
    for (place, call) in calls.iter().enumerate() {
        reply = reply.and_call(&place.to_string(), call.tool, call.arguments.clone());
    }
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new([reply, ScriptedReply::text("Done.")]))
        .with_environment(Arc::new(SystemEnvironment))
        .with_tool_execution(ToolExecutionStrategy::Sequential)
        .with_mcp_servers(servers);
    let Ok(events) = agent.prompt("Call every tool.") else { return (BTreeMap::new(), 0) };
    let events = events.collect().await;
    let progress = events.iter().filter(|event| matches!(event, AgentEvent::ProgressMessage { .. })).count();
    let mut results = BTreeMap::new();
    for message in agent.messages() {
        if let Some(message @ Message::ToolResult(result)) = message.as_llm() {
            results.insert(result.tool_call_id.to_string(), (message.text(), result.is_error));
        }
    }
    (results, progress)
}

fn start_of(text: &str) -> String {
    text.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(unix)]
fn kill(id: u32) -> Result<(), Failure> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(id)?).ok_or("there is no process 0")?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::KILL)?)
}

#[cfg(not(unix))]
fn kill(_: u32) -> Result<(), Failure> {
    Err("processes are killed on Unix only".into())
}

fn everything(program: &str) -> (McpServer, Vec<Call>) {
    let server =
        McpServer::stdio("everything", program).with_arg("stdio").with_elicitation(accept_defaults());
    let calls = vec![
        call("echo", json!({"message": "hello"})),
        call("get-sum", json!({"a": 1, "b": 2})),
        call("get-tiny-image", json!({})),
        call("get-structured-content", json!({"location": "New York"})),
        call("get-annotated-message", json!({"messageType": "success", "includeImage": true})),
        call("get-resource-links", json!({"count": 2})),
        call("get-resource-reference", json!({"resourceType": "Blob", "resourceId": 1})),
        call("get-env", json!({})),
        call("gzip-file-as-resource", json!({"name": "a.gz", "data": "data:text/plain;base64,aGVsbG8="})),
        call("trigger-long-running-operation", json!({"duration": 1, "steps": 4})),
        call("trigger-elicitation-request", json!({})),
        call("trigger-url-elicitation", json!({"url": "https://example.com/"})),
        call("toggle-simulated-logging", json!({})),
        call("toggle-subscriber-updates", json!({})),
        // This tool must run as a task, which the client does not support.
        refused("simulate-research-query", json!({"topic": "tides"})),
    ];
    (server, calls)
}

fn filesystem(program: &str, folder: &Path) -> Result<(McpServer, Vec<Call>), Failure> {
    let folder = folder.canonicalize()?;
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    std::fs::write(folder.join("a.png"), [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A])?;
    let edit = json!([{"oldText": "hello", "newText": "good-bye"}]);
    let calls = vec![
        call("list_allowed_directories", json!({})),
        call("create_directory", json!({"path": at("sub")})),
        call("write_file", json!({"path": at("sub/a.txt"), "content": "hello\nworld\n"})),
        call("read_file", json!({"path": at("sub/a.txt")})),
        call("read_text_file", json!({"path": at("sub/a.txt"), "head": 1})),
        call("read_multiple_files", json!({"paths": [at("sub/a.txt")]})),
        call("read_media_file", json!({"path": at("a.png")})),
        call("edit_file", json!({"path": at("sub/a.txt"), "edits": edit})),
        call("list_directory", json!({"path": at("")})),
        call("list_directory_with_sizes", json!({"path": at("")})),
        call("directory_tree", json!({"path": at("")})),
        call("search_files", json!({"path": at(""), "pattern": "*.txt"})),
        call("get_file_info", json!({"path": at("sub/a.txt")})),
        call("move_file", json!({"source": at("sub/a.txt"), "destination": at("b.txt")})),
        refused("read_text_file", json!({"path": "/etc/hostname"})),
    ];
    Ok((McpServer::stdio("filesystem", program).with_arg(folder), calls))
}

fn time(program: &str) -> (McpServer, Vec<Call>) {
    let to = json!({"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let calls = vec![
        call("get_current_time", json!({"timezone": "Europe/Berlin"})),
        call("convert_time", to),
        refused("get_current_time", json!({"timezone": "Nowhere/At all"})),
    ];
    (McpServer::stdio("time", program), calls)
}

async fn git(program: &str, folder: &Path) -> Result<(McpServer, Vec<Call>), Failure> {
    let status = tokio::process::Command::new("git")
        .args(["init", "--quiet", "--initial-branch", "main"])
        .current_dir(folder)
        .status()
        .await?;
    if !status.success() {
        return Err("git init did not work".into());
    }
    std::fs::write(folder.join("a.txt"), "hello\n")?;
    let repo = folder.canonicalize()?.to_string_lossy().into_owned();
    let of = |more: Value| {
        let mut arguments = json!({"repo_path": repo});
        if let (Some(arguments), Value::Object(more)) = (arguments.as_object_mut(), more) {
            arguments.extend(more);
        }
        arguments
    };
    let calls = vec![
        call("git_status", of(json!({}))),
        call("git_add", of(json!({"files": ["a.txt"]}))),
        call("git_commit", of(json!({"message": "first"}))),
        call("git_log", of(json!({"max_count": 1}))),
        call("git_show", of(json!({"revision": "HEAD"}))),
        call("git_create_branch", of(json!({"branch_name": "next"}))),
        call("git_checkout", of(json!({"branch_name": "next"}))),
        call("git_branch", of(json!({"branch_type": "local"}))),
        call("git_diff", of(json!({"target": "main"}))),
        call("git_diff_unstaged", of(json!({}))),
        call("git_diff_staged", of(json!({}))),
        call("git_reset", of(json!({}))),
    ];
    let mut server = McpServer::stdio("git", program).with_args(["--repository", repo.as_str()]);
    for who in ["AUTHOR", "COMMITTER"] {
        server = server.with_env(format!("GIT_{who}_NAME"), "A test");
        server = server.with_env(format!("GIT_{who}_EMAIL"), "test@example.com");
    }
    Ok((server, calls))
}
