//! How many commands of `bash` run at once, and what those beyond do.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "this is a part of tests")]
#![allow(clippy::disallowed_methods, reason = "a test starts itself with a lower limit")]

mod support;

use std::time::{Duration, Instant};

use agent_core::AgentTool as _;
use agent_tools::BashTool;
use agent_tools::bash::{CommandSlots, MAX_COMMANDS};
#[cfg(target_os = "linux")]
use agent_tools::sandbox::{Sandbox, SandboxKind, SandboxRules};
use serde_json::json;
use support::{Folder, call, call_and_cancel, context, folder, text, until};

const CALLS: usize = 500;
const FILES: usize = 1024;

/// The variable with the name of the sandbox, in the process with a lower limit.
const INNER: &str = "LOOPTREE_TEST_SLOTS";

/// A part of the slots is used by those who have it: others do not wait for its commands.
#[tokio::test]
async fn commands_that_fill_one_part_of_the_slots_do_not_keep_those_of_another_part_waiting() {
    let folder = folder();
    let parts = MAX_COMMANDS;
    let tool = |slots: &CommandSlots| BashTool::new(folder.workspace.clone()).with_slots(slots.clone());
    let (one, other) = (CommandSlots::part_of_process(parts), CommandSlots::part_of_process(parts));
    let endless = tool(&one);
    let running =
        tokio::spawn(async move { call(&endless, json!({"command": "touch began; sleep 600"})).await });
    until("a command of the first part runs", || folder.has("began")).await;
    // A part is a slot at least, and of 64 parts it is no more.
    let waiting = tool(&one);
    let queued = tokio::spawn(async move { call(&waiting, json!({"command": "touch second"})).await });
    assert_eq!(text(call(&tool(&other), json!({"command": "echo free"})).await), "Exit code: 0\nfree\n");
    assert!(!folder.has("second"));
    running.abort();
    drop(queued.await.unwrap());
    assert!(folder.has("second"));
}

/// Attack 21.
#[test]
fn five_hundred_commands_at_once_work_with_1024_files() {
    for kind in ["none", "landlock", "bwrap"] {
        let start = Instant::now();
        let status = std::process::Command::new("bash")
            .args(["-c", &format!("ulimit -n {FILES}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "in_a_process_with_few_files", "--nocapture"])
            .env(INNER, kind)
            .status()
            .unwrap();
        assert!(status.success(), "{kind}: {status}");
        eprintln!("{kind}: {CALLS} commands with {FILES} files took {:?}", start.elapsed());
    }
}

/// Does nothing by itself; the test above runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_process_with_few_files() {
    let Ok(kind) = std::env::var(INNER) else { return };
    let folder = folder();
    let Some(tool) = tool(&kind, &folder).await else { return };
    let calls = (0..CALLS).map(|at| {
        let tool = tool.clone();
        tokio::spawn(async move {
            let command = format!("echo {at}; sleep 0.05");
            (at, call(&tool, json!({"command": command, "timeout": 60})).await)
        })
    });
    for one in calls.collect::<Vec<_>>() {
        let (at, result) = one.await.unwrap();
        assert_eq!(text(result), format!("Exit code: 0\n{at}\n"));
    }
}

#[cfg(target_os = "linux")]
async fn tool(kind: &str, folder: &Folder) -> Option<BashTool> {
    let rules = SandboxRules::for_workspace(&folder.workspace);
    let sandbox = match kind {
        "landlock" => Sandbox::landlock(rules),
        "bwrap" => Sandbox::bwrap(rules),
        _ => Sandbox::none(),
    };
    if let Err(error) = sandbox.check().await {
        assert_ne!(sandbox.kind(), SandboxKind::None);
        support::skip::sandbox(sandbox.kind(), &error);
        return None;
    }
    Some(BashTool::new(folder.workspace.clone()).with_sandbox(sandbox))
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unused_async, reason = "it is asynchronous on Linux")]
async fn tool(kind: &str, folder: &Folder) -> Option<BashTool> {
    (kind == "none").then(|| BashTool::new(folder.workspace.clone()))
}

/// Counts the commands that run at the same time.
const COUNT: &str = "echo > running.$$; set -- running.*; echo $#; sleep 0.2; rm running.$$";

#[tokio::test(flavor = "multi_thread")]
async fn no_more_commands_run_at_once_than_there_are_slots() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone()).with_slots(CommandSlots::new(3));
    let calls = (0..10).map(|_| {
        let tool = tool.clone();
        tokio::spawn(async move { text(call(&tool, json!({"command": COUNT})).await) })
    });
    let mut most = 0;
    for one in calls.collect::<Vec<_>>() {
        let shown = one.await.unwrap();
        let count = shown.lines().nth(1).unwrap().trim().parse::<usize>().unwrap();
        most = most.max(count);
    }
    assert!((1..=3).contains(&most), "{most} ran at once");
}

#[tokio::test]
async fn waiting_does_not_count_towards_the_time_limit_and_keeps_the_order() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone()).with_slots(CommandSlots::new(1));
    let first = call(&tool, json!({"command": "sleep 1.5; echo 1 >> order"}));
    let second = call(&tool, json!({"command": "echo 2 >> order", "timeout": 1}));
    let third = call(&tool, json!({"command": "echo 3 >> order", "timeout": 1}));
    let (first, second, third) = tokio::join!(first, second, third);
    for one in [first, second, third] {
        assert_eq!(text(one), "Exit code: 0\n");
    }
    assert_eq!(folder.get("order"), b"1\n2\n3\n");
}

#[tokio::test]
async fn a_command_that_waits_can_be_cancelled_or_dropped() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone()).with_slots(CommandSlots::new(1));
    let running = call(&tool, json!({"command": "touch ready; while [ ! -e go ]; do sleep 0.01; done"}));
    let others = async {
        until("the first command", || folder.has("ready")).await;
        let cancelled = call_and_cancel(&tool, json!({"command": "touch ran"}), async || {
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
        assert!(matches!(cancelled.await, Err(agent_core::ToolError::Cancelled)));
        let dropped = tool.execute(json!({"command": "touch ran"}), context(&tool));
        tokio::time::timeout(Duration::from_millis(50), dropped).await.unwrap_err();
        folder.put("go", "");
    };
    let (running, ()) = tokio::join!(running, others);
    text(running);
    text(call(&tool, json!({"command": "true"})).await);
    assert!(!folder.has("ran"));
}

#[test]
fn the_default_is_far_below_the_usual_limit_of_files() {
    const { assert!(MAX_COMMANDS * agent_tools::bash::FILES_PER_COMMAND <= FILES) };
}
