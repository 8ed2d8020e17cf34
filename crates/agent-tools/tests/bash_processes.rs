//! Which processes are left when a call of `bash` is over: none.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "what a machine cannot show is said in a line")]

mod support;

use std::path::Path;
use std::time::Duration;

use agent_core::{AgentTool as _, ToolError};
use agent_tools::{Background, BashTool};
use serde_json::json;
use support::{Folder, call, call_and_cancel, context, failure, folder, now_ms, runs, text, until};

/// What a test's command starts: in the background, without an environment, in a group of its own, and in a shell of
/// a shell. Each writes its number into a file.
const FAMILY: &str = "
    sleep 300 & echo $! > child
    env -i sleep 300 & echo $! > bare
    setsid bash -c 'echo $$ > stray; exec sleep 300' &
    bash -c 'bash -c \"echo \\$\\$ > grandchild; sleep 300; true\"; true' &
    until [ -s child -a -s stray -a -s grandchild ]; do sleep 0.01; done
    touch ready
";

fn pids(folder: &Folder) -> Vec<u32> {
    ["child", "bare", "stray", "grandchild"].map(|name| folder.number(name)).to_vec()
}

async fn gone(pids: &[u32]) {
    until("the end of the processes", || !pids.iter().any(|pid| runs(*pid))).await;
}

/// REQ-095, B-170.
#[tokio::test]
async fn a_time_out_ends_everything_that_was_started() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let error = failure(call(&tool, json!({"command": format!("{FAMILY} sleep 300"), "timeout": 3})).await);
    assert_eq!(error, "Command timed out after 3s");
    gone(&pids(&folder)).await;
}

/// REQ-095, B-170.
#[tokio::test]
async fn an_abort_ends_everything_that_was_started() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let command = json!({"command": format!("{FAMILY} sleep 300")});
    let result = call_and_cancel(&tool, command, async || until("ready", || folder.has("ready")).await).await;
    assert_eq!(result, Err(ToolError::Cancelled));
    gone(&pids(&folder)).await;
}

/// It gets SIGTERM and a moment before it is killed, which may be too short on a busy machine.
#[tokio::test]
async fn a_command_that_is_aborted_can_clean_up() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let command = json!({"command": "trap ': > cleaned; exit' TERM; : > ready; while :; do sleep 300; done"});
    for attempt in 1..=20 {
        let ready = async || until("ready", || folder.has("ready")).await;
        // What the shell wrote when it was ended is a part of the result.
        drop(call_and_cancel(&tool, command.clone(), ready).await);
        if folder.has("cleaned") {
            return;
        }
        std::fs::remove_file(folder.path().join("ready")).unwrap();
        eprintln!("attempt {attempt}: it was killed too early");
    }
    panic!("it never had the time to clean up");
}

/// B-170.
#[tokio::test]
async fn dropping_the_call_ends_everything_that_was_started() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let running = tool.execute(json!({"command": format!("{FAMILY} sleep 300")}), context(&tool));
    tokio::select! {
        result = running => panic!("it ended: {result:?}"),
        () = until("ready", || folder.has("ready")) => {}
    }
    let pids = pids(&folder);
    gone(&pids).await;
}

/// B-170.
#[tokio::test]
async fn what_is_left_in_the_background_ends_with_the_call() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    text(call(&tool, json!({"command": FAMILY})).await);
    gone(&pids(&folder)).await;
}

#[tokio::test]
async fn commands_of_an_agent_that_a_command_runs_end_too() {
    // What an agent inside does: a call of its own, in a group of its own.
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let inner = "LOOPTREE_CALL=$LOOPTREE_CALL,inner setsid bash -c 'echo $$ > pid; exec sleep 300'";
    text(call(&tool, json!({"command": format!("{inner} & until [ -s pid ]; do sleep 0.01; done")})).await);
    gone(&[folder.number("pid")]).await;
}

/// B-170.
#[tokio::test]
async fn a_process_in_the_background_that_holds_the_pipes_does_not_hold_the_call() {
    let start = now_ms();
    let shown = text(call(&BashTool::default(), json!({"command": "sleep 60 & echo hi"})).await);
    assert_eq!(shown, "Exit code: 0\nhi\n");
    assert!(now_ms() - start < 20_000);
}

#[tokio::test]
async fn a_background_process_lives_on_when_the_caller_wants_it() {
    let tool = BashTool::default().with_background(Background::Keep);
    let shown = text(call(&tool, json!({"command": "sleep 300 & echo $!"})).await);
    let pid = shown.strip_prefix("Exit code: 0\n").unwrap().trim().parse().unwrap();
    // Long enough for a kill on the way to arrive.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(runs(pid));
    text(call(&tool, json!({"command": format!("kill -9 {pid}")})).await);
    gone(&[pid]).await;
}

#[tokio::test]
async fn a_process_that_ignores_the_polite_signal_is_killed() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let command = "trap '' TERM; echo $$ > pid; bash -c 'sleep 300; true'; sleep 300; touch survived";
    let error = failure(call(&tool, json!({"command": command, "timeout": 2})).await);
    assert_eq!(error, "Command timed out after 2s");
    let pid = folder.number("pid");
    gone(&[pid]).await;
    assert!(!folder.has("survived"));
}

/// B-170.
#[tokio::test]
async fn a_time_out_keeps_the_output_so_far() {
    let tool = BashTool::default().with_timeout(Duration::from_millis(2_500));
    let result = call(&tool, json!({"command": "echo so far; echo bad >&2; sleep 300"})).await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.to_text(), "Command timed out after 2.5s\nSTDOUT:\nso far\n\nSTDERR:\nbad\n");
    assert_eq!(result.details, json!({"exit_code": -1, "success": false, "timed_out": true}));
}

/// B-170.
#[tokio::test]
async fn an_abort_keeps_the_output_so_far() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let command = json!({"command": "echo so far; touch ready; sleep 300"});
    let result = call_and_cancel(&tool, command, async || until("ready", || folder.has("ready")).await);
    let result = result.await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.to_text(), "Operation aborted\nso far\n");
    assert_eq!(result.details, json!({"exit_code": -1, "success": false, "aborted": true}));
}

#[tokio::test]
async fn a_flood_does_not_keep_a_call_from_its_time_out() {
    let tool = BashTool::default().with_timeout(Duration::from_secs(1));
    let result = call(&tool, json!({"command": "yes & yes >&2"})).await.unwrap();
    let shown = result.to_text();
    assert!(shown.starts_with("Command timed out after 1s\nSTDOUT:\ny\n"), "{}", &shown[..60]);
    assert!(shown.ends_with("... (output truncated)"));
}

/// Leaves the group and the session, and writes its number.
const LEAVE: &str = r"import ctypes, os, sys, threading, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in range(3): os.close(number)
";

/// Runs a Python script that writes the number of the process that it leaves into the file `pid`.
async fn check_left(script: &str) {
    let folder = folder();
    folder.put("left.py", format!("{LEAVE}{script}"));
    let tool = BashTool::new(folder.workspace.clone());
    let command = "/usr/bin/python3 -I left.py; for i in {1..500}; do [ -s pid ] && break; sleep 0.01; done";
    if Path::new("/usr/bin/python3").exists() {
        text(call(&tool, json!({"command": command})).await);
        let pid = folder.number("pid");
        until("the end of the threads", || !has_threads(pid)).await;
    } else {
        eprintln!("skipped: there is no /usr/bin/python3");
    }
}

/// Whether a thread of the process runs. The first one may have ended.
fn has_threads(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    })
}

/// The file `environ` of a process is empty when its first thread has ended.
#[tokio::test]
async fn a_process_whose_first_thread_has_ended_ends() {
    check_left(&format!(
        "def go():
    time.sleep(0.2)
    open('pid.new', 'w').write(str(os.getpid())); os.rename('pid.new', 'pid')
    time.sleep(300)
threading.Thread(target=go).start()
ctypes.CDLL(None).syscall({}, 0)
",
        libc::SYS_exit
    ))
    .await;
}

#[tokio::test]
async fn a_process_with_megabytes_of_variables_before_the_mark_ends() {
    check_left(
        "mark = os.environ['LOOPTREE_CALL']
variables = {'A%d' % i: 'x' * 120000 for i in range(14)} | {'LOOPTREE_CALL': mark}
os.execve('/bin/sh', ['sh', '-c', 'echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done'], variables | {'PATH': '/bin:/usr/bin'})
",
    )
    .await;
}

#[tokio::test]
async fn a_process_with_two_marks_ends() {
    check_left(
        "libc = ctypes.CDLL(None)
mark = ('LOOPTREE_CALL=' + os.environ['LOOPTREE_CALL']).encode()
variables = (ctypes.c_char_p * 4)(b'LOOPTREE_CALL=other', mark, b'PATH=/bin:/usr/bin', None)
words = (ctypes.c_char_p * 4)(b'sh', b'-c', b'echo $$ > pid.new; mv pid.new pid; while :; do sleep 1; done', None)
libc.execve(b'/bin/sh', words, variables)
",
    )
    .await;
}

/// Each process starts its successor, which leaves the session, and ends at once.
const STORM: &str = r"#include <unistd.h>
int main(void) {
    if (fork()) _exit(0);
    for (int i = 0; i < 1024; i++) close(i);
    for (;;) { if (fork()) _exit(0); setsid(); }
}
";

#[tokio::test]
async fn a_chain_of_processes_that_leave_their_sessions_ends() {
    let folder = folder();
    folder.put("storm.c", STORM);
    let name = format!("storm{}", std::process::id());
    let command = format!("cc -O1 -o {name} storm.c && ./{name}; sleep 0.3");
    let tool = BashTool::new(folder.workspace.clone());
    let shown = call(&tool, json!({"command": "command -v cc"})).await.unwrap().to_text();
    if !shown.contains("Exit code: 0") {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    for _ in 0..5 {
        text(call(&tool, json!({"command": command})).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let left = (0..50).flat_map(|_| support::sandbox::with_argument(&format!("./{name}"))).count();
        // What is left must not outlive the test.
        if left > 0 {
            let end = format!("for i in {{1..300}}; do pkill -9 -x {name}; done");
            drop(call(&tool, json!({"command": end})).await);
        }
        assert_eq!(left, 0);
    }
}
