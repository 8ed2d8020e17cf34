//! Children: how they start, what they see, what they leave behind.

use std::time::Duration;

use agent_tools::mcp::{McpClient, McpError, McpServer};
use serde_json::json;

use crate::support::{call, child, child_in, connect, lines, now_ms, pids, runs, text, until};

/// REQ-118.
#[tokio::test]
async fn a_server_that_ends_before_the_greeting_is_an_error_with_what_it_wrote() {
    let server = child("no_config").with_env("SERVICE_TOKEN", "tok-0123456789");
    let error = McpClient::connect(server).await.unwrap_err();
    assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("it exited with code 3"), "{text}");
    assert!(text.contains("error: no configuration, with the token ****"), "{text}");
    assert!(text.contains("usage: server FILE"), "{text}");
    assert!(!format!("{error:?}").contains("tok-0123456789"), "{error:?}");
}

/// The end of a child is known after its pipe is closed, and after the processes that it left have been searched for.
#[tokio::test]
async fn a_server_that_ends_some_time_after_its_pipe_is_an_error_with_its_exit_code() {
    let server = McpServer::stdio("late", "sh").with_args(["-c", "exec >&-; sleep 1.5; exit 3"]);
    let error = McpClient::connect(server).await.unwrap_err();
    assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
    assert!(error.to_string().contains("it exited with code 3"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let error = McpClient::connect(McpServer::stdio("notes", "no-such-program")).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("MCP I/O error: starting `no-such-program` for server `notes`"), "{text}");
}

#[tokio::test]
async fn a_server_that_never_answers_the_greeting_is_given_up_and_ended() {
    for mode in ["hang", "deaf"] {
        let folder = tempfile::tempdir().unwrap();
        let server = child(mode).with_env(crate::support::server::FOLDER, folder.path());
        let begun = now_ms();
        let error =
            McpClient::connect(server.with_connect_timeout(Duration::from_secs(3))).await.unwrap_err();
        assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
        assert!(now_ms() - begun < 30_000, "{mode}");
        if mode == "hang" {
            assert!(error.stderr().contains("loading the index"), "{error}");
        }
        let pids = pids(folder.path(), "starts");
        assert_eq!(pids.len(), 1);
        until("the end of the process", || !runs(pids[0])).await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_the_greeting_is_heard() {
    let error = McpClient::connect(child("raw_refuses")).await.unwrap_err();
    assert!(matches!(error, McpError::JsonRpc { code: -32600, .. }), "{error:?}");
}

#[tokio::test]
async fn junk_on_standard_output_is_passed_over() {
    let client = connect(child("junk")).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "a"})).await), "a");
}

/// A server whose log nobody reads stands still once the pipe is full.
#[tokio::test]
async fn a_flood_on_standard_error_holds_nothing_up_and_its_end_is_kept() {
    let client = connect(child("loud")).await;
    let error = client.call_tool("crash", json!({})).await.unwrap_err();
    assert!(error.stderr().contains("the last line"), "{error}");
    assert!(error.stderr().len() <= 4096 + 64, "{}", error.stderr().len());
    assert!(error.stderr().starts_with("a line of the log"), "cut between lines: {error}");
}

/// What a program's servers see, when the program has keys.
async fn seen_by_servers_of_a_program_with_keys() -> String {
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["support::server::process", "--exact", "--nocapture"])
        .env(crate::support::server::MODE, "program")
        .envs(KEYS.map(|name| (name, "sk-0123456789")))
        .output()
        .await
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

const KEYS: [&str; 4] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN"];

/// D24 for servers.
#[tokio::test]
async fn keys_of_the_program_are_not_seen_by_its_servers() {
    let seen = seen_by_servers_of_a_program_with_keys().await;
    assert!(seen.lines().any(|line| line.starts_with("PATH=")), "{seen}");
    for name in KEYS {
        assert!(!seen.contains(name), "{name} leaked");
    }
    assert!(!seen.contains("0123456789"), "{seen}");
}

/// D24 for servers.
#[tokio::test]
async fn a_child_sees_what_it_was_given() {
    let client = connect(child("sdk").with_env("GIVEN", "yes").with_inherited_env("CARGO_PKG_NAME")).await;
    let seen = text(call(&client, "env", json!({})).await);
    for line in ["GIVEN=yes", "CARGO_PKG_NAME=looptree-tools"] {
        assert!(seen.lines().any(|seen| seen == line), "{line} in {seen}");
    }
}

#[tokio::test]
async fn a_child_starts_in_the_folder_that_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child("sdk").with_folder(folder.path())).await;
    let process = client.process_id().unwrap();
    let real = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap();
    assert_eq!(real, folder.path().canonicalize().unwrap());
}

/// REQ-134.
#[tokio::test]
async fn closing_ends_the_input_first_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path())).await;
    let pid = client.process_id().unwrap();
    text(call(&client, "child", json!({})).await);
    let children = pids(folder.path(), "children");
    assert_eq!(children.len(), 2);
    assert!(runs(pid) && children.iter().all(|pid| runs(*pid)));
    client.close().await;
    assert!(!runs(pid));
    assert_eq!(lines(folder.path(), "ends"), ["end of input"], "it could end by itself");
    until("the end of its children", || !children.iter().any(|pid| runs(*pid))).await;
    let error = client.call_tool("echo", json!({"text": "a"})).await.unwrap_err();
    assert!(matches!(error, McpError::ConnectionClosed { .. }), "{error:?}");
    assert_eq!(pids(folder.path(), "starts").len(), 1, "what was closed is not started again");
}

/// REQ-134.
#[tokio::test]
async fn dropping_the_last_handle_ends_the_server_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path())).await;
    let pid = client.process_id().unwrap();
    let tool = crate::support::tool(&client, "child").await;
    text(call(&client, "child", json!({})).await);
    drop(client);
    assert!(runs(pid), "a tool still holds it");
    drop(tool);
    let children = pids(folder.path(), "children");
    until("the end of all", || !runs(pid) && !children.iter().any(|pid| runs(*pid))).await;
    assert_eq!(lines(folder.path(), "ends"), ["end of input"]);
}

/// REQ-134.
#[test]
fn the_end_of_the_runtime_is_the_end_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (client, pid) = runtime.block_on(async {
        let client = connect(child_in(folder.path())).await;
        text(call(&client, "child", json!({})).await);
        let pid = client.process_id().unwrap();
        (client, pid)
    });
    drop(runtime);
    let children = pids(folder.path(), "children");
    let waiting = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    waiting.block_on(until("the end of all", || !runs(pid) && !children.iter().any(|pid| runs(*pid))));
    drop(client);
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let mut connecting = std::pin::pin!(McpClient::connect(child("sdk")));
    let waker = std::task::Waker::noop();
    match connecting.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
        std::task::Poll::Ready(Err(McpError::NoRuntime { server })) => assert_eq!(server, "test"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn secrets_are_in_no_debug_output() {
    let server = child("sdk").with_env("TOKEN", "tok-0123456789").with_arg("--key=abc-0123456789");
    let shown = format!("{server:?}");
    assert!(shown.contains("TOKEN"), "{shown}");
    assert!(!shown.contains("0123456789"), "{shown}");
}

/// A script that writes what it sees of its start into a file.
#[cfg(unix)]
fn script(place: &std::path::Path, text: &str) {
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, text).unwrap();
    std::fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_child_starts_in_an_empty_folder_of_its_own_that_is_gone_after_it() {
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let text = format!(
        "pwd -P > {0}; stat -c %a . >> {0}; ls -A | wc -l >> {0}; echo \"$OLDPWD\" >> {0}; exit 3",
        seen.display()
    );
    let mut folders = Vec::new();
    for _ in 0..2 {
        let server = McpServer::stdio("where", "sh").with_args(["-c", &text]);
        McpClient::connect(server).await.unwrap_err();
        let seen = std::fs::read_to_string(&seen).unwrap();
        let lines: Vec<&str> = seen.lines().collect();
        assert_eq!(lines[1..], ["700", "0", ""], "{seen}");
        let folder = std::path::PathBuf::from(lines[0]);
        until("the end of the folder", || !folder.exists()).await;
        folders.push(folder);
    }
    assert_ne!(folders[0], folders[1]);
    let here = std::env::current_dir().unwrap();
    assert!(folders.iter().all(|folder| !folder.starts_with(&here)));
}

/// Attack of a repository and of a model: a program with the name of a server's program, and another one in its place later.
#[cfg(unix)]
#[tokio::test]
async fn a_restart_runs_the_program_that_was_found_outside_of_the_writable_folders() {
    use std::os::unix::fs::symlink;

    let (top, log) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (project, system) = (top.path().join("project"), top.path().join("system"));
    let evil = format!("#!/bin/sh\ntouch {}/escaped\n", top.path().display());
    script(&project.join("bin/server"), &evil);
    std::fs::create_dir(&system).unwrap();
    symlink(std::env::current_exe().unwrap(), system.join("server")).unwrap();
    let path = std::env::join_paths([project.join("bin"), system.clone()]).unwrap();
    let server = McpServer::stdio("test", "server")
        .with_args(["support::server::process", "--exact", "--nocapture"])
        .with_env(crate::support::server::MODE, "sdk")
        .with_env(crate::support::server::FOLDER, log.path())
        .with_env("PATH", &path)
        .with_writable_folder(&project);
    let client = connect(server).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "hi"})).await), "hi");
    // The name leads to another program now, and the restart does not look it up.
    std::fs::remove_file(system.join("server")).unwrap();
    script(&system.join("server"), &evil);
    let first = pids(log.path(), "starts")[0];
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(first.cast_signed()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    until("the end of the process", || !runs(first)).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "again"})).await), "again");
    client.close().await;
    assert!(!top.path().join("escaped").exists());

    // A program that only the project has is refused by its name, and used by its path.
    let only = |command: &std::ffi::OsStr| {
        McpServer::stdio("only", command).with_env("PATH", project.join("bin")).with_writable_folder(&project)
    };
    let error = McpClient::connect(only("server".as_ref())).await.unwrap_err().to_string();
    assert!(
        error.contains("in a folder that commands can write to") && error.contains("absolute path"),
        "{error}"
    );
    assert!(!top.path().join("escaped").exists());
    McpClient::connect(only(project.join("bin/server").as_os_str())).await.unwrap_err();
    until("the program of the project", || top.path().join("escaped").exists()).await;
}
