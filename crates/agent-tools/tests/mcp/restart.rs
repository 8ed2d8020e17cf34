//! Servers that end by themselves.

use std::time::Duration;

use agent_tools::mcp::{AnnotationTrust, McpError, Restart};
use serde_json::json;

use crate::support::{call, child, child_in, connect, failure, kill, now_ms, pids, runs, text, tool, until};

fn quick() -> Restart {
    Restart::new(3, Duration::from_millis(10), Duration::from_millis(100))
}

/// REQ-118.
#[tokio::test]
async fn a_killed_server_is_started_again_for_the_next_call() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path()).with_restart(quick())).await;
    for round in 1..=3 {
        let pid = client.process_id().unwrap();
        kill(pid);
        until("the end of the process", || !runs(pid)).await;
        assert_eq!(text(call(&client, "echo", json!({"text": "back"})).await), "back");
        assert_eq!(pids(folder.path(), "starts").len(), round + 1);
    }
}

/// X6: what must not happen twice does not.
#[tokio::test]
async fn a_call_that_was_cut_off_is_repeated_only_where_that_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let trusted = child_in(folder.path()).with_annotations(AnnotationTrust::Believed);
    let client = connect(trusted.with_restart(quick())).await;
    assert_eq!(text(call(&client, "crash_once_reading", json!({})).await), "this time it went well");
    assert_eq!(text(call(&client, "crash_once_setting", json!({})).await), "this time it went well");
    let told = failure(call(&client, "crash_once_writing", json!({})).await);
    assert!(told.contains("it exited with code 7"), "{told}");
    assert!(told.contains("fatal: out of cheese"), "{told}");
    let calls = crate::support::lines(folder.path(), "calls");
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    assert_eq!((count("crash_once_reading"), count("crash_once_writing")), (2, 1));
    // The server is back all the same.
    assert_eq!(text(call(&client, "crash_once_writing", json!({})).await), "this time it went well");
}

#[tokio::test]
async fn a_server_killed_during_a_call_fails_it_in_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path()).with_restart(quick())).await;
    let slow = tool(&client, "slow").await;
    let pid = client.process_id().unwrap();
    let begun = now_ms();
    let ctx = crate::support::context(&slow);
    use agent_core::AgentTool as _;
    let (result, ()) = tokio::join!(slow.execute(json!({"steps": 1, "ms": 600_000}), ctx), async {
        until("the call", || crate::support::lines(folder.path(), "calls").contains(&"slow".to_owned()))
            .await;
        kill(pid);
    });
    let told = failure(result);
    assert!(told.contains("it was ended by signal 9"), "{told}");
    assert!(now_ms() - begun < 60_000);
    assert_eq!(text(call(&client, "echo", json!({"text": "back"})).await), "back");
}

#[tokio::test]
async fn a_server_that_crashes_on_every_call_is_not_started_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path()).with_restart(quick())).await;
    for _ in 0..4 {
        let error = client.call_tool("crash", json!({})).await.unwrap_err();
        assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
    }
    assert_eq!(pids(folder.path(), "starts").len(), 4, "one start for each call");
}

#[tokio::test]
async fn a_server_that_does_not_come_back_fails_all_waiting_calls_once() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    let gone = folder.path().join("gone");
    let exe = std::env::current_exe().unwrap();
    let script = format!("#!/bin/sh\n[ -e {} ] && exit 1\nexec {} \"$@\"\n", gone.display(), exe.display());
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let server = agent_tools::mcp::McpServer::stdio("test", &program)
        .with_args(["support::server::process", "--exact", "--nocapture"])
        .with_env(crate::support::server::MODE, "sdk")
        .with_restart(quick());
    let client = connect(server).await;
    std::fs::write(gone, "").unwrap();
    kill(client.process_id().unwrap());
    until("the loss", || client.process_id().is_none()).await;
    let begun = now_ms();
    let calls = (0..10).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.call_tool("echo", json!({"text": "a"})).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
        assert!(error.to_string().contains("it exited with code 1"), "{error}");
    }
    assert!(now_ms() - begun < 60_000);
}

#[tokio::test]
async fn a_server_that_is_not_to_be_restarted_stays_gone() {
    let client = connect(child("sdk").with_restart(Restart::never())).await;
    kill(client.process_id().unwrap());
    until("the loss", || client.process_id().is_none()).await;
    let error = client.call_tool("echo", json!({"text": "a"})).await.unwrap_err();
    assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
}
