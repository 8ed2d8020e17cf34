//! `bash` through its public face: real commands on this machine.
#![cfg(unix)]

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::trace::TraceContext;
use agent_core::{AgentTool as _, Effects, ToolError, ToolSignal, ToolUpdates};
use agent_tools::bash::TraceVariables;
use agent_tools::{BashTool, DenyPattern};
use serde_json::json;
use support::{call, call_cancelled, context, failure, folder, text};

async fn bash(command: &str) -> String {
    text(call(&BashTool::default(), json!({"command": command})).await)
}

/// REQ-047, REQ-137.
#[tokio::test]
async fn a_command_gives_its_exit_code_and_output() {
    let result = call(&BashTool::default(), json!({"command": "echo hello"})).await.unwrap();
    assert_eq!(result.to_text(), "Exit code: 0\nhello\n");
    assert_eq!(result.details, json!({"exit_code": 0, "success": true}));
}

#[tokio::test]
async fn a_command_receives_the_trace_context_of_its_call_if_it_is_asked_for() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = TraceContext::new(parent).unwrap().with_state("vendor=1");
    let command = json!({"command": "echo ${TRACEPARENT:-none} ${TRACESTATE:-none}"});
    for (variables, trace, expected) in [
        (TraceVariables::Set, Some(trace.clone()), format!("{parent} vendor=1")),
        (TraceVariables::Set, None, "none none".to_owned()),
        (TraceVariables::Omitted, Some(trace), "none none".to_owned()),
    ] {
        let tool = BashTool::default().with_trace_variables(variables);
        let mut ctx = context(&tool);
        ctx.trace = trace.map(Box::new);
        assert_eq!(text(tool.execute(command.clone(), ctx).await), format!("Exit code: 0\n{expected}\n"));
    }
}

/// REQ-047.
#[tokio::test]
async fn standard_error_is_shown_apart_when_there_is_any() {
    assert_eq!(bash("echo out; echo err >&2").await, "Exit code: 0\nSTDOUT:\nout\n\nSTDERR:\nerr\n");
}

/// B-170.
#[tokio::test]
async fn a_nonzero_exit_is_a_result_and_not_an_error() {
    let result = call(&BashTool::default(), json!({"command": "echo no; exit 3"})).await.unwrap();
    assert!(!result.is_error);
    assert_eq!(result.to_text(), "Exit code: 3\nno\n");
    assert_eq!(result.details, json!({"exit_code": 3, "success": false}));
}

#[tokio::test]
async fn a_command_killed_by_a_signal_has_exit_code_minus_one_and_names_the_signal() {
    let result = call(&BashTool::default(), json!({"command": "kill -9 $$"})).await.unwrap();
    assert_eq!(result.to_text(), "Exit code: -1\n");
    assert_eq!(result.details, json!({"exit_code": -1, "success": false, "signal": 9}));
}

/// B-170.
#[tokio::test]
async fn a_command_that_reads_its_input_sees_the_end_at_once() {
    assert_eq!(bash("cat; echo done").await, "Exit code: 0\ndone\n");
}

#[tokio::test]
async fn commands_run_in_the_root_of_the_workspace() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    let shown = text(call(&tool, json!({"command": "pwd -P"})).await);
    assert_eq!(shown.trim_end(), format!("Exit code: 0\n{}", folder.workspace.root().unwrap().display()));
}

/// B-170.
#[tokio::test]
async fn a_character_that_comes_in_two_reads_is_whole() {
    assert_eq!(bash(r"printf '\xe2\x82'; sleep 0.3; printf '\xac'").await, "Exit code: 0\n€");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_replaced() {
    assert_eq!(bash(r"printf 'a\xffb'").await, "Exit code: 0\na\u{FFFD}b");
}

/// REQ-096.
#[tokio::test]
async fn output_over_the_bound_is_cut_between_characters_and_says_so() {
    // 600 000 bytes of characters of two bytes, behind one of one byte: the bound falls into a character.
    let shown = bash("printf x; yes é | tr -d '\\n' | head -c 600000; printf y >&2").await;
    let out = shown.strip_prefix("Exit code: 0\nSTDOUT:\nx").unwrap();
    let (kept, rest) = out.split_once('\n').unwrap();
    assert_eq!(rest, "... (output truncated)\nSTDERR:\ny");
    assert_eq!(kept.len(), 256 * 1024 - 2);
    assert!(kept.chars().all(|c| c == 'é'));
}

/// B-170.
#[tokio::test]
async fn a_flood_ends_by_itself_and_is_not_kept() {
    let before = peak_kib();
    let shown = bash("head -c 300000000 /dev/zero | tr '\\0' x").await;
    assert!(shown.ends_with("x\n... (output truncated)"));
    let grown = peak_kib() - before;
    assert!(grown < 100_000, "{grown} KiB for a flood of 300 MB");
}

/// The most memory that this process has had; 0 where the system does not say.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or_default()
}

/// D24.
#[tokio::test]
async fn commands_see_a_small_environment() {
    let tool = BashTool::default().with_env("GIVEN", "yes");
    let shown = text(call(&tool, json!({"command": "env -0 | tr '\\0\\n' '\\n '"})).await);
    let allowed = |name: &str| {
        agent_tools::bash::INHERITED.contains(&name)
            || name.starts_with("LC_")
            // Made by the shell itself, by the caller and by the tool.
            || ["PWD", "SHLVL", "_", "OLDPWD", "GIVEN", "LOOPTREE_CALL"].contains(&name)
    };
    let names: Vec<_> =
        shown.lines().skip(1).filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(names.contains(&"PATH") && names.contains(&"GIVEN"), "{names:?}");
    // cargo sets variables for tests, so there is something that must not be seen.
    assert!(std::env::vars_os().any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
    assert_eq!(names.into_iter().filter(|name| !allowed(name)).collect::<Vec<_>>(), Vec::<&str>::new());
}

#[tokio::test]
async fn a_variable_is_handed_on_when_the_caller_says_so() {
    let tool = BashTool::default().with_inherited_env("CARGO_MANIFEST_DIR");
    let shown = text(call(&tool, json!({"command": "echo $CARGO_MANIFEST_DIR"})).await);
    assert_eq!(shown.trim_end(), format!("Exit code: 0\n{}", env!("CARGO_MANIFEST_DIR")));
}

#[test]
fn values_of_the_environment_are_not_in_the_debug_output() {
    let shown = format!("{:?}", BashTool::default().with_env("TOKEN", "hush-hush"));
    assert!(shown.contains("TOKEN") && !shown.contains("hush-hush"), "{shown}");
}

/// REQ-094.
#[tokio::test]
async fn a_denied_command_is_not_started() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone()).deny(DenyPattern::command("touch here"));
    let error = failure(call(&tool, json!({"command": "touch other; touch here"})).await);
    assert_eq!(
        error,
        "Command blocked by safety policy: contains 'touch here'. This pattern is denied for safety."
    );
    assert!(!folder.has("other") && !folder.has("here"));
}

/// REQ-139.
#[tokio::test]
async fn the_deny_list_can_be_replaced() {
    let tool = BashTool::default().with_deny_patterns([DenyPattern::command("true")]);
    assert!(failure(call(&tool, json!({"command": "true"})).await).contains("blocked"));
    assert_eq!(text(call(&tool, json!({"command": "echo mkfs"})).await), "Exit code: 0\nmkfs\n");
}

/// REQ-097.
#[tokio::test]
async fn a_command_that_is_not_confirmed_is_not_started() {
    let folder = folder();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let tool = BashTool::new(folder.workspace.clone()).with_confirm(Arc::new(move |command: String| {
        let yes = command.ends_with("good");
        seen.lock().unwrap().push(command);
        Box::pin(async move {
            tokio::task::yield_now().await;
            yes
        })
    }));
    let error = failure(call(&tool, json!({"command": "touch bad"})).await);
    assert_eq!(error, "Command was not confirmed by the user.");
    text(call(&tool, json!({"command": "touch good"})).await);
    assert!(!folder.has("bad") && folder.has("good"));
    assert_eq!(*asked.lock().unwrap(), ["touch bad", "touch good"]);
}

#[tokio::test]
async fn cancellation_does_not_wait_for_a_confirmation() {
    let tool = BashTool::default().with_confirm(Arc::new(|_| Box::pin(std::future::pending())));
    let result = support::call_and_cancel(&tool, json!({"command": "true"}), async || {
        tokio::task::yield_now().await;
    });
    assert_eq!(result.await, Err(ToolError::Cancelled));
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let tool = BashTool::default();
    let mut ctx = context(&tool);
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    ctx.updates = ToolUpdates::new(move |signal| {
        if let ToolSignal::Update(partial) = signal {
            counted.fetch_add(1, Ordering::SeqCst);
            seen.lock().unwrap().push(partial.to_text());
        }
    });
    // It ends when its first line was shown.
    let folder = folder();
    let go = folder.path().join("go");
    let command = format!("echo first; until [ -e '{}' ]; do sleep 0.05; done; echo last", go.display());
    let running = tool.execute(json!({"command": command}), ctx);
    let (result, ()) = tokio::join!(running, async {
        support::until("an update", || count.load(Ordering::SeqCst) > 0).await;
        std::fs::write(&go, "").unwrap();
    });
    assert_eq!(text(result), "Exit code: 0\nfirst\nlast\n");
    let shown = shown.lock().unwrap();
    assert_eq!(shown.first().map(String::as_str), Some("first\n"));
    assert_eq!(shown.last().map(String::as_str), Some("first\nlast\n"));
}

#[tokio::test]
async fn the_longest_command_runs() {
    let command = format!("echo ok #{}", "x".repeat(agent_tools::bash::MAX_COMMAND_BYTES - 9));
    assert_eq!(bash(&command).await, "Exit code: 0\nok\n");
}

/// REQ-095.
#[tokio::test]
async fn a_call_that_is_cancelled_before_it_begins_runs_nothing() {
    let folder = folder();
    let tool = BashTool::new(folder.workspace.clone());
    assert_eq!(call_cancelled(&tool, json!({"command": "touch x"})).await, Err(ToolError::Cancelled));
    assert!(!folder.has("x"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_named() {
    async fn check(arguments: serde_json::Value, expect: &str) {
        let tool = BashTool::default().with_max_timeout(Duration::from_secs(60));
        let result = call(&tool, arguments).await;
        assert!(matches!(&result, Err(ToolError::InvalidArgs(_))), "{result:?}");
        let error = failure(result);
        assert!(error.contains(expect), "{error}");
    }
    check(json!({}), "missing field `command`").await;
    check(json!({"command": 1}), "expected a string").await;
    check(json!({"command": "true", "timeout": 0}), "timeout must be between 1 and 60 seconds").await;
    check(json!({"command": "true", "timeout": 61}), "timeout must be between 1 and 60 seconds").await;
    check(json!({"command": "a\u{0}b"}), "NUL").await;
    check(json!({"command": "#".repeat(128 * 1024)}), "too long (131072 bytes, max 131071)").await;
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let tool = BashTool::default().with_folder("/there/is/no/such/folder");
    assert!(failure(call(&tool, json!({"command": "true"})).await).starts_with("Failed to execute: "));
}

#[test]
fn a_command_may_not_be_run_twice_and_the_agent_waits_longer_than_the_tool() {
    let tool = BashTool::default();
    assert_eq!(tool.effects(&json!({"command": "true"})), Effects::Once);
    assert!(tool.timeout() > Some(agent_tools::bash::MAX_TIMEOUT));
}
