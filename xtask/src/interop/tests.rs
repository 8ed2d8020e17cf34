use std::time::Duration;

use agent_core::{
    AssistantMessage, CompactionReason, Content, Ended, ErrorKind, StopReason, ToolResultMessage, Usage,
};
use serde_json::{Value, json};
use tokio::process::Command;

use super::checks::{self, Counting};
use super::process::Process;
use super::report::Report;
use super::scene::{ANSWER, BEFORE, CALLS, RESULTS};
use super::talk::{Failure, Talk};
use super::{Options, install, options};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[track_caller]
fn check_options(line: &str, servers: &[&'static str]) {
    let expected = Options { suite: "llm", servers: servers.to_vec() };
    assert_eq!(options(&words(line)).unwrap(), expected, "{line}");
}

#[test]
fn the_suite_may_be_left_out_and_one_server_may_be_chosen() {
    check_options("", &["litellm", "aimock", "llama.cpp"]);
    check_options("llm", &["litellm", "aimock", "llama.cpp"]);
    check_options("--only aimock", &["aimock"]);
    check_options("llm --only llama.cpp", &["llama.cpp"]);
}

#[test]
fn what_is_not_known_is_refused_and_the_message_says_what_there_is() {
    for (line, part) in [
        ("nothing", "llm"),
        ("--only nobody", "litellm, aimock, llama.cpp"),
        ("--fast", "--fast"),
        ("llm llm", "llm"),
        ("--only", "name of a server"),
    ] {
        let error = options(&words(line)).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn an_installer_that_reached_nobody_is_told_from_one_that_found_nothing() {
    for (printed, missing) in [
        ("Max retries exceeded with url: /simple/litellm/", true),
        ("[Errno -3] Temporary failure in name resolution", true),
        ("npm error code ENOTFOUND", true),
        ("npm error code EAI_AGAIN", true),
        ("requirement xllamacpp==1 (from versions: none)", true),
        ("requirement xllamacpp==99 (from versions: 0.1, 0.2)", false),
        ("ERROR: No matching distribution found for litellm==99", false),
        ("npm error code E404", false),
        ("OSError: [Errno 28] No space left on device", false),
    ] {
        assert_eq!(install::is_no_network(printed), missing, "{printed}");
    }
}

fn reply(content: Vec<Content>, stop: StopReason) -> AssistantMessage {
    let mut reply = AssistantMessage::new("p", "m", stop);
    reply.content = content;
    reply.usage = Usage::new(10, 5, 0, 0);
    reply
}

/// A run as it should be.
fn good_talk() -> Talk {
    let arguments: Vec<Value> = CALLS.iter().map(|(_, a)| serde_json::from_str(a).unwrap()).collect();
    let mut first = vec![Content::text(BEFORE)];
    let mut results = Vec::new();
    for (n, (name, _)) in CALLS.iter().enumerate() {
        first.push(Content::tool_call(format!("call_{n}"), *name, arguments[n].clone()));
        let said = vec![Content::text(RESULTS[n])];
        results.push(ToolResultMessage::new(format!("call_{n}").as_str().into(), (*name).into(), said));
    }
    Talk {
        replies: vec![
            reply(first, StopReason::ToolUse),
            reply(vec![Content::text(ANSWER)], StopReason::Stop),
        ],
        results,
        pieces: 20,
        usage: Usage::new(20, 10, 0, 0),
        ended: Some(Ended::Completed),
        called: CALLS.iter().map(|(name, _)| (*name).to_owned()).zip(arguments).collect(),
        ..Talk::default()
    }
}

#[track_caller]
fn check_two_tools(spoil: impl FnOnce(&mut Talk), part: &str) {
    let mut talk = good_talk();
    spoil(&mut talk);
    let error = checks::two_tools(&talk, Counting::Every).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_run_with_two_tools_passes_only_when_everything_is_as_it_was_said() {
    assert_eq!(checks::two_tools(&good_talk(), Counting::Every).unwrap(), "20 pieces, 20+10 tokens");
    check_two_tools(|t| t.ended = Some(Ended::Aborted), "ended");
    check_two_tools(|t| t.failures.push(failure(ErrorKind::Network, None)), "failed");
    check_two_tools(|t| t.replies[0].content.truncate(2), "1 calls");
    check_two_tools(|t| t.replies[0].content[0] = Content::text("I look."), "before the calls");
    check_two_tools(|t| t.replies[0].stop_reason = StopReason::Stop, "stopped with Stop");
    check_two_tools(|t| t.replies[0].content[2] = t.replies[0].content[1].clone(), "ids");
    check_two_tools(|t| t.called[1].1["harbour"] = json!("Brest"), "wind was called with");
    check_two_tools(|t| t.results[0].is_error = true, "results");
    check_two_tools(|t| t.results.swap(0, 1), "results");
    check_two_tools(|t| t.replies[1].content[0] = Content::text("Yes."), "the answer is");
    check_two_tools(|t| t.pieces = 2, "pieces");
    check_two_tools(|t| t.replies[1].usage = Usage::default(), "counted");
    check_two_tools(|t| t.usage = Usage::new(10, 5, 0, 0), "counted");
}

#[test]
fn results_are_found_in_a_request_also_where_they_stand_in_json_of_their_own() {
    let plain = json!({"messages": [{"content": RESULTS[0]}, {"content": RESULTS[1]}]});
    checks::results_arrived(&plain).unwrap();
    let wrapped = |n: usize| json!({"output": RESULTS[n]}).to_string();
    checks::results_arrived(&json!([wrapped(0), {"deep": wrapped(1)}])).unwrap();
    assert!(checks::results_arrived(&json!([RESULTS[0]])).is_err());
    assert!(checks::results_arrived(&json!([RESULTS[0], RESULTS[1], RESULTS[1]])).is_err());
}

fn failure(kind: ErrorKind, status: Option<u16>) -> Failure {
    Failure { kind, status, retry_after: None, text: "it failed".to_owned() }
}

fn after(failures: Vec<Failure>) -> Talk {
    Talk {
        replies: vec![reply(vec![Content::text(ANSWER)], StopReason::Stop)],
        waits: failures.iter().map(|_| Duration::from_millis(20)).collect(),
        ended: Some(Ended::Completed),
        failures,
        ..Talk::default()
    }
}

#[test]
fn a_second_attempt_counts_only_after_the_failure_that_was_meant_and_the_wait_that_was_asked_for() {
    let again = |talk: &Talk| checks::tried_again(talk, ErrorKind::RateLimited, Some(429));
    again(&after(vec![failure(ErrorKind::RateLimited, Some(429))])).unwrap();
    assert!(again(&after(vec![])).is_err());
    assert!(again(&after(vec![failure(ErrorKind::Quota, Some(429))])).is_err());
    assert!(again(&after(vec![failure(ErrorKind::RateLimited, Some(529))])).is_err());
    let mut hasty = after(vec![failure(ErrorKind::RateLimited, Some(429))]);
    hasty.failures[0].retry_after = Some(Duration::from_secs(1));
    assert!(again(&hasty).unwrap_err().to_string().contains("asked for"));
    assert!(checks::waited_as_asked(&hasty, Duration::from_secs(2)).is_err());
}

#[test]
fn an_overflow_must_be_taken_for_one_and_answered_by_one_compaction() {
    let recovered = |talk: &Talk| checks::recovered_from_overflow(talk, Some(400));
    let mut talk = after(vec![failure(ErrorKind::ContextOverflow, Some(400))]);
    assert!(recovered(&talk).is_err(), "nothing was compacted");
    talk.compactions.push(CompactionReason::Overflow);
    recovered(&talk).unwrap();
    talk.failures[0].kind = ErrorKind::Api;
    assert!(recovered(&talk).is_err());
}

#[test]
fn one_connection_may_be_lost_and_nothing_else() {
    let lost = |failures| checks::lost_at_most_a_connection(&after(failures));
    assert_eq!(lost(vec![]).unwrap(), "");
    assert_eq!(lost(vec![failure(ErrorKind::Network, None)]).unwrap(), ", one lost connection");
    assert!(lost(vec![failure(ErrorKind::Network, Some(500))]).is_err());
    assert!(lost(vec![failure(ErrorKind::Network, None), failure(ErrorKind::Network, None)]).is_err());
}

#[tokio::test]
async fn the_table_shows_what_passed_what_failed_and_what_was_left_out() {
    let mut report = Report::default();
    report.skip("aimock", "npm is missing");
    assert!(report.passed(), "what cannot be had is no failure");
    report.check("one", "chat", "works", async { Ok("12 pieces".to_owned()) }).await;
    report.check("another", "chat", "works", async { anyhow::bail!("a text differs") }).await;
    assert!(!report.passed());
    let shown = report.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "skipped: aimock: npm is missing");
    assert!(
        lines[1].starts_with("one      chat  works  passed") && lines[1].ends_with("12 pieces"),
        "{shown}"
    );
    assert!(shown.contains("another chat: works: a text differs"), "{shown}");
    assert!(shown.ends_with("2 checks, 1 failed\n"), "{shown}");
}

#[cfg(unix)]
mod processes {
    use super::*;

    /// A shell that starts another process, says its number, and waits.
    fn shell(folder: &std::path::Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 300 & echo $! > child; wait"]).current_dir(folder);
        command
    }

    async fn child_of(folder: &std::path::Path) -> rustix::process::Pid {
        for _ in 0..500 {
            let said = std::fs::read_to_string(folder.join("child")).unwrap_or_default();
            if let Ok(number) = said.trim().parse() {
                return rustix::process::Pid::from_raw(number).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the shell has started nothing");
    }

    async fn is_gone(child: rustix::process::Pid) -> bool {
        for _ in 0..500 {
            let state = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()));
            let is_zombie = state.is_ok_and(|s| s.rsplit(')').next().unwrap_or_default().starts_with(" Z"));
            if is_zombie || rustix::process::test_kill_process(child).is_err() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    #[tokio::test]
    async fn what_a_server_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let server = Process::start("sh", shell(folder.path()), &log).unwrap();
        let child = child_of(folder.path()).await;
        server.end().await.unwrap();
        assert!(is_gone(child).await);
    }

    #[tokio::test]
    async fn a_server_that_is_only_dropped_ends_too() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let server = Process::start("sh", shell(folder.path()), &log).unwrap();
        let child = child_of(folder.path()).await;
        drop(server);
        assert!(is_gone(child).await);
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_reported_with_what_it_printed() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo the port is taken; exit 3"]);
        let mut server = Process::start("sh", command, &folder.path().join("log")).unwrap();
        let error = server.ready(Duration::from_secs(60), || async { false }).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("  | the port is taken"), "{error}");
    }

    #[tokio::test]
    async fn the_input_of_a_server_stays_open_while_it_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "cat; echo closed"]);
        let mut server = Process::start("sh", command, &folder.path().join("log")).unwrap();
        let early =
            server.ready(Duration::from_millis(300), || async { false }).await.unwrap_err().to_string();
        assert!(early.contains("was not ready"), "{early}");
        let (status, printed) = server.done(Duration::from_secs(60)).await.unwrap();
        assert!(status.success() && printed.contains("closed"), "{printed}");
    }
}
