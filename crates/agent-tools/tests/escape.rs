//! Attempts to get out or to take the machine down, in each kind of sandbox and without one. Each case runs in a process
//! of its own, whose memory is measured; nothing of it may be left running.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "this is a part of tests")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a process of this program says what it measured"
)]

mod support;

use std::time::Duration;

use agent_tools::bash::ProcessTracking;
use agent_tools::sandbox::{Sandbox, SandboxKind, SandboxRules};
use agent_tools::{BashTool, OutputStore};
use serde_json::json;
use support::sandbox::{marked, no_tcp, none_and_each_sandbox, with_argument};
use support::{Folder, call, folder, until};

/// The most memory that the agent's process may ever have had in use: 32 MiB, all kinds of sandbox one after the other,
/// with a store of outputs. Seen are 5 to 8.
const MAX_PEAK_KIB: u64 = 32 * 1024;

/// Says in a process of this program which case it is to run.
const CASE: &str = "LOOPTREE_TEST_ESCAPE";

/// A key that an agent's process may have.
const KEY: (&str, &str) = ("EXAMPLE_API_KEY", "sk-test-0123456789");

/// What a case shows when it is over: the text, and whether it was marked as an error.
struct Shown {
    text: String,
    folder: Folder,
    kind: SandboxKind,
}

impl Shown {
    #[track_caller]
    fn has(&self, part: &str) {
        assert!(self.text.contains(part), "{}: {part}: {}", self.kind, self.brief());
    }

    #[track_caller]
    fn lacks(&self, part: &str) {
        assert!(!self.text.contains(part), "{}: {part}: {}", self.kind, self.brief());
    }

    /// That the text is not longer than both outputs and their notes may be.
    #[track_caller]
    fn is_short(&self) {
        assert!(self.text.len() < 2 * (256 * 1024 + 1024), "{}", self.text.len());
    }

    fn brief(&self) -> String {
        self.text.chars().take(400).collect()
    }
}

struct Case {
    name: &'static str,
    /// Seconds.
    timeout: u64,
    command: fn(&Folder) -> String,
    check: fn(&Shown),
}

fn plain(command: &'static str) -> String {
    command.to_owned()
}

const CASES: &[Case] = &[
    Case {
        name: "flood",
        timeout: 300,
        command: |_| plain("yes | head -c 300000000"),
        check: |shown| {
            shown.is_short();
            shown.has("of 300000000 bytes the first 67108864 are kept");
        },
    },
    Case {
        name: "binary_flood",
        timeout: 300,
        command: |_| plain("head -c 200000000 /dev/urandom"),
        check: Shown::is_short,
    },
    Case {
        name: "flood_of_both",
        timeout: 2,
        command: |_| plain("yes & yes >&2"),
        check: |shown| {
            shown.is_short();
            shown.has("timed out after 2s");
        },
    },
    Case {
        name: "huge_line",
        timeout: 300,
        command: |_| plain("head -c 200000000 /dev/zero | tr '\\0' a"),
        check: |shown| {
            shown.is_short();
            shown.has("of 200000000 bytes");
        },
    },
    Case {
        name: "device_without_end",
        timeout: 2,
        command: |_| plain("cat /dev/zero"),
        check: |shown| {
            shown.is_short();
            shown.has("timed out after 2s");
        },
    },
    Case {
        name: "device_of_noise",
        timeout: 2,
        command: |_| plain("cat /dev/random"),
        check: Shown::is_short,
    },
    Case {
        name: "full_device",
        timeout: 20,
        command: |_| plain("echo x > /dev/full && echo written"),
        check: |shown| {
            shown.has("No space left on device");
            shown.lacks("written\n");
        },
    },
    Case {
        name: "fifo_without_writer",
        timeout: 2,
        command: |_| plain("mkfifo f; cat f"),
        check: |shown| shown.has("timed out after 2s"),
    },
    Case {
        name: "sparse_file",
        timeout: 3,
        command: |_| plain("truncate -s 4G big; cat big"),
        check: |shown| {
            shown.is_short();
            assert_eq!(shown.folder.path().join("big").metadata().unwrap().len(), 4 << 30);
        },
    },
    Case {
        name: "path_with_newline",
        timeout: 20,
        command: |_| plain("touch $'a\\nb'; ls -d a*"),
        check: |shown| shown.has("a\nb"),
    },
    Case {
        name: "standard_input",
        timeout: 20,
        command: |_| plain("cat; echo after"),
        check: |shown| shown.has("Exit code: 0\nafter"),
    },
    Case {
        name: "key_in_the_environment",
        timeout: 20,
        command: |_| plain("env; cat /proc/self/environ"),
        check: |shown| shown.lacks(KEY.1),
    },
    Case {
        // Without a sandbox a command may read the process that started it: `docs/tools/bash.md` says so.
        name: "key_of_the_agents_process",
        timeout: 20,
        command: |_| format!("cat /proc/{}/environ | tr '\\0' '\\n'", std::process::id()),
        check: |shown| match shown.kind {
            SandboxKind::None => shown.has(KEY.1),
            _ => shown.lacks(KEY.1),
        },
    },
    Case {
        name: "parent_folder",
        timeout: 20,
        command: |folder| {
            format!("cat ../{}/secret-of-the-test.txt", beside(folder).rsplit('/').next().unwrap())
        },
        check: outside_is_as_the_kind_says,
    },
    Case {
        name: "link",
        timeout: 20,
        command: |folder| format!("ln -s {} out; cat out/secret-of-the-test.txt", beside(folder)),
        check: outside_is_as_the_kind_says,
    },
    Case {
        name: "absolute_path",
        timeout: 20,
        command: |folder| format!("cat {}/secret-of-the-test.txt", beside(folder)),
        check: outside_is_as_the_kind_says,
    },
    Case {
        name: "background_child",
        timeout: 20,
        command: |_| plain("sleep 300 & nohup sleep 300 > /dev/null 2>&1 & echo started"),
        check: |shown| shown.has("started"),
    },
    Case {
        name: "setsid",
        timeout: 20,
        command: |_| {
            plain("setsid sleep 300 & setsid bash -c 'sleep 300 & sleep 300' & sleep 0.3; echo started")
        },
        check: |shown| shown.has("started"),
    },
    Case {
        name: "double_fork",
        timeout: 20,
        command: |_| plain("(setsid bash -c '(sleep 300 &) & sleep 300' &) & sleep 0.3; echo started"),
        check: |shown| shown.has("started"),
    },
    Case {
        // Only as wide as is safe: 127 processes, each of which waits. As the superuser `ulimit -u` limits nothing, so this
        // shows that a bomb is cleared away, not that it is held small.
        name: "fork_bomb",
        timeout: 4,
        command: |_| {
            plain(
                "ulimit -u 2000; f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; sleep 300; }; f 6",
            )
        },
        check: |shown| shown.has("timed out after 4s"),
    },
    Case {
        // What makes new processes all the time until it is ended, some at a time.
        name: "respawner",
        timeout: 3,
        command: |_| plain("while :; do setsid bash -c 'exec sleep 300' & sleep 0.05; done"),
        check: |shown| shown.has("timed out after 3s"),
    },
    Case {
        name: "deaf_to_signals",
        timeout: 2,
        command: |_| plain("trap '' TERM HUP INT; sleep 300; sleep 300"),
        check: |shown| shown.has("timed out after 2s"),
    },
];

/// The folder beside the workspace, where the secret lies.
fn beside(folder: &Folder) -> String {
    format!("{}-beside", folder.path().canonicalize().unwrap().display())
}

/// Without a sandbox a command goes where it wants; with one it does not.
fn outside_is_as_the_kind_says(shown: &Shown) {
    match shown.kind {
        SandboxKind::None => shown.has("the secret"),
        _ => shown.lacks("the secret"),
    }
}

async fn run(case: &Case, sandbox: Sandbox, folder: Folder) {
    let kind = sandbox.kind();
    let beside = std::path::PathBuf::from(beside(&folder));
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("secret-of-the-test.txt"), "the secret").unwrap();
    let mark = format!("escape-{}-{}-{kind}", std::process::id(), case.name);
    let bash = BashTool::new(folder.workspace.clone())
        .with_sandbox(sandbox)
        .with_output_store(OutputStore::new())
        .with_env("TEST_MARK", &mark);
    let arguments = json!({"command": (case.command)(&folder), "timeout": case.timeout});
    let text = match call(&bash, arguments).await {
        Ok(result) => result.to_text(),
        Err(error) => error.to_string(),
    };
    std::fs::remove_dir_all(&beside).unwrap();
    (case.check)(&Shown { text, folder, kind });
    until("the end of all processes of the case", || marked(&mark).is_empty()).await;
}

/// A case in a process of its own. Not a test by itself.
#[tokio::test]
async fn the_case_of_this_process() {
    #[expect(clippy::disallowed_methods, reason = "it is told by its environment what to be")]
    let Ok(name) = std::env::var(CASE) else {
        return;
    };
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    for make in none_and_each_sandbox(no_tcp).await {
        let folder = folder();
        let sandbox = make(&folder);
        run(case, sandbox, folder).await;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    println!("{peak}");
}

fn check_case(name: &str) {
    #[expect(clippy::disallowed_methods, reason = "a process of this test program")]
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["the_case_of_this_process", "--exact", "--nocapture"])
        .env(CASE, name)
        .env(KEY.0, KEY.1)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {text}{errors}");
    let peak = text.lines().find_map(|line| line.split_once("VmHWM:")).unwrap_or_else(|| panic!("{text}"));
    let peak: u64 = peak.1.trim().trim_end_matches(" kB").trim().parse().unwrap();
    eprintln!("{name}: at most {peak} KiB");
    for line in errors.lines().filter(|line| line.starts_with("skipped")) {
        eprintln!("{name}: {line}");
    }
    assert!(peak < MAX_PEAK_KIB, "{name}: {peak} KiB");
}

/// B-170.
#[test]
fn floods_and_endless_things_are_bounded_in_time_and_memory() {
    for name in [
        "flood",
        "binary_flood",
        "flood_of_both",
        "huge_line",
        "device_without_end",
        "device_of_noise",
        "sparse_file",
    ] {
        check_case(name);
    }
}

#[test]
fn odd_files_do_not_hold_a_command() {
    for name in ["full_device", "fifo_without_writer", "path_with_newline", "standard_input"] {
        check_case(name);
    }
}

#[test]
fn keys_of_the_agent_are_seen_only_where_the_page_says_so() {
    for name in ["key_in_the_environment", "key_of_the_agents_process"] {
        check_case(name);
    }
}

#[test]
fn a_sandbox_keeps_a_command_in_its_folders() {
    for name in ["parent_folder", "link", "absolute_path"] {
        check_case(name);
    }
}

/// B-170, REQ-095.
#[test]
fn nothing_is_left_running() {
    for name in ["background_child", "setsid", "double_fork", "fork_bomb", "respawner", "deaf_to_signals"] {
        check_case(name);
    }
}

#[test]
fn every_case_is_in_a_test() {
    let source = include_str!("escape.rs");
    for case in CASES {
        assert_eq!(source.matches(&format!("\"{}\"", case.name)).count(), 2, "{}", case.name);
    }
}

/// How a process is ended that left its group and its session and cleared its environment: it has no mark any more, only
/// what the kernel holds ends it.
async fn sheds_its_mark(bash: BashTool, seconds: u32) -> Vec<u32> {
    let there = |file: &str| format!("setsid env -i bash -c 'echo > {file}; exec sleep {seconds}' &");
    let command =
        format!("{} ({}) & until [ -e a -a -e b ]; do sleep 0.02; done; sleep 0.3", there("a"), there("b"));
    match call(&bash, json!({"command": command})).await {
        Ok(_) => {}
        Err(error) => panic!("{error}"),
    }
    // Long enough for a kill on the way to arrive.
    for _ in 0..100 {
        if with_argument(&seconds.to_string()).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    with_argument(&seconds.to_string())
}

#[tokio::test]
async fn a_process_that_sheds_its_mark_ends_under_bwrap_and_in_a_cgroup() {
    let mut seconds = 7_000_000 + std::process::id();
    let has_cgroup = match call(
        &BashTool::default().with_process_tracking(ProcessTracking::Cgroup),
        json!({"command": "true"}),
    )
    .await
    {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: tracking by cgroup: {error}");
            false
        }
    };
    for make in none_and_each_sandbox(no_tcp).await {
        for tracking in [ProcessTracking::Marker, ProcessTracking::Cgroup] {
            if tracking == ProcessTracking::Cgroup && !has_cgroup {
                continue;
            }
            let folder = folder();
            let sandbox = make(&folder);
            let kind = sandbox.kind();
            let bash =
                BashTool::new(folder.workspace.clone()).with_sandbox(sandbox).with_process_tracking(tracking);
            seconds += 10_000_000;
            let left = sheds_its_mark(bash, seconds).await;
            let is_held = kind == SandboxKind::Bwrap || tracking == ProcessTracking::Cgroup;
            assert_eq!(left.is_empty(), is_held, "{kind} {tracking:?}");
            // As `docs/tools/bash.md` says; the test ends what it has started.
            for pid in left {
                call(&BashTool::default(), json!({"command": format!("kill -9 {pid}")})).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_command_in_a_cgroup_is_as_any_other_and_leaves_no_group() {
    let bash = BashTool::default().with_process_tracking(ProcessTracking::Cgroup);
    let shown = match call(&bash, json!({"command": "cat; echo \"$0 $#\"; grep -c . /proc/self/cgroup > /dev/null; grep ^0:: /proc/self/cgroup; exit 3"})).await {
        Ok(result) => result.to_text(),
        Err(error) => {
            eprintln!("skipped: tracking by cgroup: {error}");
            return;
        }
    };
    let (shell, group) = shown.split_once("bash 0\n0::").unwrap_or_else(|| panic!("{shown}"));
    assert!(shell.starts_with("Exit code: 3\n") && shell.lines().count() <= 2, "{shown}");
    let group = group.trim();
    assert!(group.contains("/looptree-"), "{group}");
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(!own.contains("/looptree-"), "the agent itself is not moved");
    let name = group.rsplit('/').next().unwrap().to_owned();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    for line in mounts.lines().filter(|line| line.contains(" - cgroup2 ")) {
        let place = std::path::PathBuf::from(line.split(' ').nth(4).unwrap());
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        until("the end of the group", || !place.join(own).join(&name).exists()).await;
    }
}

/// Says in a process of this program that it is to break with a command running, which is marked like this.
const BREAK: &str = "LOOPTREE_TEST_BREAK";

/// A process that breaks. Not a test by itself.
#[tokio::test]
async fn the_process_that_breaks() {
    #[expect(clippy::disallowed_methods, reason = "it is told by its environment what to be")]
    let Ok(mark) = std::env::var(BREAK) else {
        return;
    };
    let folder = folder();
    let sandbox = Sandbox::bwrap(no_tcp(SandboxRules::for_workspace(&folder.workspace)));
    if let Err(error) = sandbox.check().await {
        support::skip::sandbox(sandbox.kind(), &error);
        return;
    }
    let bash = BashTool::new(folder.workspace.clone()).with_sandbox(sandbox).with_env("TEST_MARK", mark);
    tokio::spawn(async move {
        let command = "setsid bash -c 'touch ready; sleep 300' & sleep 300";
        call(&bash, json!({"command": command})).await
    });
    until("ready", || folder.has("ready")).await;
    println!("running");
    drop(folder);
    std::process::abort();
}

#[tokio::test]
async fn under_bwrap_commands_end_also_when_the_agents_process_is_gone() {
    let mark = format!("break-{}", std::process::id());
    let output = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["the_process_that_breaks", "--exact", "--nocapture"])
        .env(BREAK, &mark)
        .output()
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert!(said.contains("running"), "{said}");
    until("the end of all processes", || marked(&mark).is_empty()).await;
}
