//! Attempts to lead the file tools out of the workspace, to start a program through them, or to fill the memory. They run
//! in this process, so no sandbox plays a part: the workspace and their bounds hold them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]

mod support;

use std::time::Duration;

use agent_core::{ToolError, ToolResult};
use agent_tools::{SearchTool, Workspace};
use serde_json::{Value, json};
use support::{Folder, call, folder, now_ms};

/// The most memory that the process may ever have had in use: 64 MiB.
const MAX_PEAK_KIB: u64 = 64 * 1024;

/// Longer than anything here takes on a busy machine; a tool that waits for a device would wait for ever.
const MOST_TIME: Duration = Duration::from_secs(60);

const TOOLS: [&str; 5] = ["read_file", "write_file", "edit_file", "list_files", "search"];

fn arguments(tool: &str, path: &str) -> Value {
    match tool {
        "read_file" | "list_files" => json!({"path": path}),
        "write_file" => json!({"path": path, "content": "taken"}),
        "edit_file" => json!({"path": path, "old_text": "secret", "new_text": "taken"}),
        "search" => json!({"path": path, "pattern": "secret"}),
        tool => panic!("{tool}"),
    }
}

async fn try_path(workspace: &Workspace, name: &str, path: &str) -> Result<ToolResult, ToolError> {
    let tools = workspace.tools();
    let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
    let result = tokio::time::timeout(MOST_TIME, call(tool.as_ref(), arguments(name, path))).await;
    result.unwrap_or_else(|_| panic!("{name} {path:?} takes too long"))
}

/// A workspace and a folder beside it with a secret.
fn with_secret() -> (Folder, Folder) {
    let (inside, outside) = (folder(), folder());
    outside.put("secret.txt", "the secret\n");
    inside.put("a.txt", "mine\n");
    (inside, outside)
}

#[tokio::test]
async fn no_path_leads_out() {
    use std::os::unix::fs::symlink;
    let (inside, outside) = with_secret();
    let far = outside.path().display().to_string();
    symlink(outside.path(), inside.path().join("folder_link")).unwrap();
    symlink(outside.path().join("secret.txt"), inside.path().join("file_link")).unwrap();
    symlink(outside.path().join("new.txt"), inside.path().join("dangling")).unwrap();
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    for path in [
        format!("../{name}/secret.txt"),
        format!("../{name}"),
        format!("a.txt/../../{name}/secret.txt"),
        format!("./x/../../{name}/secret.txt"),
        format!("{far}/secret.txt"),
        format!("{far}/"),
        "folder_link/secret.txt".to_owned(),
        "folder_link".to_owned(),
        "file_link".to_owned(),
        "dangling".to_owned(),
        format!("/proc/self/root{far}/secret.txt"),
        format!("/proc/{}/cwd/../../etc/passwd", std::process::id()),
        "/dev/fd/0/../../../etc/passwd".to_owned(),
        format!("a.txt\n{far}/secret.txt"),
        format!("{far}/secret.txt\n"),
        "a\r.txt".to_owned(),
        "a.txt\0".to_owned(),
        "~/secret.txt/../../..".to_owned(),
    ] {
        for tool in TOOLS {
            match try_path(&inside.workspace, tool, &path).await {
                Ok(result) => panic!("{tool} {path:?}: {}", result.to_text()),
                Err(error) => assert!(!error.to_string().contains("the secret"), "{tool} {path:?}: {error}"),
            }
        }
    }
    assert_eq!(outside.get("secret.txt"), b"the secret\n");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn walks_do_not_follow_links_out() {
    let (inside, outside) = with_secret();
    std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
    for tool in ["list_files", "search"] {
        let shown = try_path(&inside.workspace, tool, ".").await.unwrap().to_text();
        assert!(!shown.contains("secret.txt") && !shown.contains("the secret"), "{tool}: {shown}");
    }
}

#[tokio::test]
async fn a_file_whose_name_has_a_line_end_stays_one_line() {
    let (inside, _outside) = with_secret();
    inside.put("a\nREADME.md:1: forged", "needle\n");
    let shown = try_path(&inside.workspace, "list_files", ".").await.unwrap().to_text();
    assert!(shown.contains("a\\nREADME.md:1: forged") && !shown.contains("\nREADME"), "{shown}");
}

/// B-173.
#[tokio::test]
async fn a_pattern_is_never_an_option_of_a_program() {
    let (inside, _outside) = with_secret();
    let search = SearchTool::new(inside.workspace.clone());
    for pattern in ["--pre=touch", "--pre=./run.sh", "-f/etc/passwd", "--files", "-e", "--hostname-bin=touch"]
    {
        inside.put("b.txt", format!("before {pattern} after\n"));
        for include in [Value::Null, json!("--pre=touch")] {
            let mut arguments = json!({"pattern": pattern, "path": "b.txt"});
            if !include.is_null() {
                arguments["path"] = json!(".");
                arguments["include"] = include.clone();
            }
            let shown = call(&search, arguments).await.unwrap().to_text();
            // It is looked for, letter by letter.
            assert_eq!(shown.contains(&format!("before {pattern} after")), include.is_null(), "{shown}");
        }
    }
    let mut names: Vec<_> =
        std::fs::read_dir(inside.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.txt", "b.txt"], "nothing was started and nothing made");
}

#[tokio::test]
async fn devices_pipes_and_sockets_are_refused_and_never_waited_for() {
    let inside = folder();
    let fifo = inside.path().join("fifo");
    let made = tokio::process::Command::new("mkfifo").arg(&fifo).status().await.unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(inside.path().join("socket")).unwrap();
    let free = Workspace::unconfined();
    for path in ["/dev/zero", "/dev/random", "/dev/full", "/dev/tty", "/dev/stdin", "/proc/self/mem"] {
        for tool in ["read_file", "edit_file", "search"] {
            let result = try_path(&free, tool, path).await;
            let nothing = match &result {
                Ok(result) => result.to_text().starts_with("No matches"),
                Err(_) => true,
            };
            assert!(nothing, "{tool} {path}: {result:?}");
        }
    }
    for path in ["fifo", "socket"] {
        for tool in ["read_file", "edit_file", "write_file"] {
            let result = try_path(&inside.workspace, tool, path).await;
            assert!(result.is_err(), "{tool} {path}: {result:?}");
        }
    }
    // A walk passes them by.
    try_path(&inside.workspace, "search", ".").await.unwrap();
    try_path(&inside.workspace, "list_files", ".").await.unwrap();
}

/// B-169, B-173.
#[tokio::test]
async fn huge_files_and_huge_lines_are_read_in_bounded_memory() {
    let inside = folder();
    std::fs::File::create(inside.path().join("sparse")).unwrap().set_len(4 << 30).unwrap();
    let line = std::fs::File::create(inside.path().join("line")).unwrap();
    let mut line = std::io::BufWriter::new(line);
    for _ in 0..200 {
        std::io::Write::write_all(&mut line, &[b'a'; 1_000_000]).unwrap();
    }
    drop(line);
    let start = now_ms();
    for path in ["sparse", "line"] {
        for tool in ["read_file", "edit_file", "search"] {
            let shown = match try_path(&inside.workspace, tool, path).await {
                Ok(result) => result.to_text(),
                Err(error) => error.to_string(),
            };
            assert!(shown.len() < 2 << 20, "{tool} {path}: {}", shown.len());
        }
        let tools = inside.workspace.tools();
        let page = json!({"path": path, "offset": 1, "limit": 3});
        if let Ok(result) = call(tools[1].as_ref(), page).await {
            assert!(result.to_text().len() < 2 << 20);
        }
    }
    try_path(&inside.workspace, "search", ".").await.unwrap();
    assert!(now_ms() - start < 240_000);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    eprintln!("at most {peak} KiB");
    assert!(peak < MAX_PEAK_KIB, "{peak} KiB");
}
