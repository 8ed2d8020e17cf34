//! Servers that are held, and results that are too big to be shown.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]

use std::path::Path;

use agent_core::AgentTool as _;
use agent_tools::OutputStore;
use agent_tools::mcp::{McpClient, McpConfig, McpError, McpServer};
use agent_tools::sandbox::{Network, Sandbox, SandboxRules};
use serde_json::json;

use crate::support::server;
use crate::support::{call, child, child_in, connect, lines, text, until};

/// Rules under which the server, which is this program, can run and write into this folder.
fn rules(folder: &Path) -> SandboxRules {
    let program = std::env::current_exe().unwrap();
    SandboxRules::new().with_read_root(program).with_write_root(folder).with_network(Network::NoTcp)
}

/// Each kind that works here; for the others a line says why not.
async fn each_sandbox(folder: &Path) -> Vec<Sandbox> {
    let mut found = Vec::new();
    for sandbox in [Sandbox::landlock(rules(folder)), Sandbox::bwrap(rules(folder))] {
        match sandbox.check().await {
            Ok(()) => found.push(sandbox),
            Err(error) => crate::skip::sandbox(sandbox.kind(), &error),
        }
    }
    found
}

fn held(server: McpServer, sandbox: Sandbox, folder: &Path) -> McpServer {
    server.with_folder(folder).with_sandbox(sandbox)
}

/// The processes with this text in their environment that are not dead.
fn marked(mark: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| crate::support::runs(*pid))
        .filter(|pid| {
            let held = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            held.windows(mark.len()).any(|part| part == mark.as_bytes())
        })
        .count()
}

#[tokio::test]
async fn a_server_in_a_sandbox_works_and_leaves_nothing() {
    let base = tempfile::tempdir().unwrap();
    for sandbox in each_sandbox(base.path()).await {
        let folder = tempfile::tempdir().unwrap();
        let sandbox = match sandbox.kind() {
            agent_tools::sandbox::SandboxKind::Bwrap => Sandbox::bwrap(rules(folder.path())),
            _ => Sandbox::landlock(rules(folder.path())),
        };
        let kind = sandbox.kind();
        let mark = format!("mcp-sandbox-{}-{kind}", std::process::id());
        let server = held(child_in(folder.path()), sandbox, folder.path()).with_env("TEST_MARK", &mark);
        let client = connect(server).await;
        assert_eq!(text(call(&client, "echo", json!({"text": "hi"})).await), "hi", "{kind}");
        // One of them in a session of its own.
        text(call(&client, "child", json!({})).await);
        assert_eq!(lines(folder.path(), "starts").len(), 1, "it can write where it may");
        assert!(marked(&mark) >= 3, "{kind}");
        client.close().await;
        assert_eq!(lines(folder.path(), "ends"), ["end of input"], "{kind}: it could end by itself");
        until("the end of all", || marked(&mark) == 0).await;
    }
}

#[tokio::test]
async fn a_server_cannot_write_outside_of_its_roots() {
    let inside = tempfile::tempdir().unwrap();
    for sandbox in each_sandbox(inside.path()).await {
        let outside = tempfile::tempdir().unwrap();
        // It writes down its start at once, and breaks when it cannot.
        let server = held(child_in(outside.path()), sandbox, inside.path());
        let error = McpClient::connect(server).await.unwrap_err();
        assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn a_server_is_not_started_when_its_sandbox_cannot_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::bwrap(rules(folder.path())).with_program("/no/such/bwrap");
    let error = McpClient::connect(held(child_in(folder.path()), sandbox, folder.path())).await.unwrap_err();
    assert!(matches!(error, McpError::Sandbox { .. }), "{error:?}");
    assert!(error.to_string().contains("install bubblewrap") && error.server() == "test", "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What a file says of this server, which writes into `folder`.
fn in_a_file(folder: &Path, sandbox: &serde_json::Value) -> McpServer {
    let file = json!({"mcpServers": {"test": {
        "command": "${EXE}",
        "args": ["support::server::process", "--exact", "--nocapture"],
        "env": {server::MODE: "sdk", server::FOLDER: folder},
        "sandbox": sandbox,
    }}});
    let exe = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let config = McpConfig::parse(&file.to_string(), |name| (name == "EXE").then(|| exe.clone())).unwrap();
    assert_eq!(config.problems().len(), 0, "{:?}", config.problems());
    config.into_servers().remove(0)
}

#[tokio::test]
async fn a_server_is_held_as_its_file_says() {
    let probe = tempfile::tempdir().unwrap();
    let kinds: Vec<&str> =
        each_sandbox(probe.path()).await.iter().map(|sandbox| sandbox.kind().name()).collect();
    for kind in kinds {
        let folder = tempfile::tempdir().unwrap();
        let rules = |writes: &[&Path]| json!({"kind": kind, "readRoots": ["${EXE}"], "writeRoots": writes, "network": "no-tcp"});
        let client = connect(in_a_file(folder.path(), &rules(&[folder.path()]))).await;
        assert_eq!(client.call_tool("echo", json!({"text": "hi"})).await.unwrap().text(), "hi", "{kind}");
        client.close().await;
        let started = lines(folder.path(), "starts").len();
        assert_eq!(started, 1, "{kind}");
        let error = McpClient::connect(in_a_file(folder.path(), &rules(&[probe.path()]))).await.unwrap_err();
        assert!(matches!(error, McpError::ConnectionClosed { .. }), "{kind}: {error:?}");
        assert_eq!(lines(folder.path(), "starts").len(), started, "{kind}: it could not write");
    }
    let folder = tempfile::tempdir().unwrap();
    let client = connect(in_a_file(folder.path(), &json!("none"))).await;
    assert_eq!(lines(folder.path(), "starts").len(), 1);
    client.close().await;
}

/// The word alone is enough: there is no root but those of the system, and the server's program is not in them.
#[tokio::test]
async fn a_server_without_roots_in_its_file_reads_and_writes_nothing_of_the_users() {
    let probe = tempfile::tempdir().unwrap();
    for sandbox in each_sandbox(probe.path()).await {
        let kind = sandbox.kind().name();
        let folder = tempfile::tempdir().unwrap();
        McpClient::connect(in_a_file(folder.path(), &json!(kind))).await.unwrap_err();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{kind}");
        let file = json!({"mcpServers": {"test": {"command": "/bin/sh", "args": ["-c", "pwd >&2; exit 3"], "sandbox": kind}}});
        let config = McpConfig::parse(&file.to_string(), |_| None).unwrap();
        let error = McpClient::connect(config.into_servers().remove(0)).await.unwrap_err();
        assert!(error.to_string().contains("code 3") && error.stderr() == "/", "{kind}: {error:?}");
    }
}

#[tokio::test]
async fn a_result_that_is_too_big_is_cut_and_kept_whole() {
    let store = OutputStore::new();
    let client = connect(child("sdk").with_output_store(store.clone())).await;
    let tool = crate::support::tool(&client, "echo").await;
    let whole = "é".repeat(200_000);
    let result = tool.execute(json!({"text": whole}), crate::support::context(&tool)).await.unwrap();
    let shown = result.to_text();
    let note =
        "[all 400000 bytes are kept: call read_output with key \"out-1\" and offset 262144 to read on]";
    assert!(shown.ends_with(&format!("\n... (output truncated)\n{note}")), "{}", &shown[shown.len() - 200..]);
    let rest = store.read("out-1", 262_144, 1_000_000).await.unwrap();
    assert_eq!(format!("{}{}", &shown[..262_144], rest.text()), whole);
}
