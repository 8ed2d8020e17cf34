//! Deferred calls of stored sessions: listed and completed by another process, forked, compacted and replayed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "the child is this test itself, on files of this test")]

mod scene;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentError, BasicAgent, HistoryError, Message, ModelConfig, RunEnd, SessionId, Timestamp, ToolResult,
};
use agent_session::{JsonStore, OpenRuns, RestoreSession, SessionError, SessionRecorder, SessionStore};
use scene::kinds;
use serde_json::json;

const GO: &str = "go";
const RESULT: &str = "Result of the call `render` (handle `job-1`):\n42 frames";

fn agent(replies: Vec<ScriptedReply>) -> (BasicAgent, ScriptedProvider) {
    let model = ScriptedProvider::new(replies);
    let tool = ScriptedTool::new("render", |_, _| async { Ok(ToolResult::deferred("job-1")) });
    let agent = BasicAgent::new(ModelConfig::default())
        .with_provider(model.clone())
        .with_session_id("s-1")
        .with_tool(tool);
    (agent, model)
}

fn call() -> ScriptedReply {
    ScriptedReply::call("c1", "render", json!({}))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn last_user(model: &ScriptedProvider) -> String {
    let requests = model.requests();
    let messages: Vec<&Message> = requests.last().unwrap().messages().collect();
    messages.iter().rev().find(|m| m.role() == "user").unwrap().text()
}

fn history_error(error: SessionError) -> HistoryError {
    match error {
        SessionError::Agent(AgentError::Message(error)) => error,
        other => panic!("{other}"),
    }
}

/// The run has ended; another process stores the result; a third one continues.
#[test]
fn a_call_of_a_run_that_has_ended_is_completed_in_another_process() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        block_on(async {
            let store = kind.open(dir.path());
            let (mut first, _) = agent(vec![call(), "I will tell you.".into()]);
            let recorder = SessionRecorder::attach(&mut first, store);
            let _ = first.prompt("Render it").unwrap().end().await;
            recorder.close().await.unwrap();
        });
        block_on(async {
            let store = kind.open(dir.path());
            let waiting = store.deferred().await.unwrap();
            assert_eq!((waiting.calls.len(), waiting.unreadable.len()), (1, 0));
            let found = &waiting.calls[0];
            assert_eq!((found.session_id.as_str(), found.call.handle.as_str()), ("s-1", "job-1"));
            let at = Timestamp(9);
            let unknown = store.complete("s-1", "c9", ToolResult::text("x"), at).await.unwrap_err();
            assert_eq!(history_error(unknown), HistoryError::UnknownCall("c9".into()));
            let again = store.complete("s-1", "c1", ToolResult::deferred("j"), at).await.unwrap_err();
            assert_eq!(history_error(again), HistoryError::DeferredAgain("c1".into()));
            store.complete("s-1", "c1", ToolResult::text("42 frames"), at).await.unwrap();
            let second = store.complete("s-1", "c1", ToolResult::text("43"), at).await.unwrap_err();
            assert_eq!(history_error(second), HistoryError::AlreadyCompleted("c1".into()));
            assert!(store.deferred().await.unwrap().calls.is_empty());
            assert!(store.unfinished().await.unwrap().runs.is_empty());
        });
        block_on(async {
            let (third, model) = agent(vec!["It has 42 frames.".into()]);
            let (third, recorder) = third.restore_session(kind.open(dir.path()), "s-1").await.unwrap();
            assert!(third.history().deferred().is_empty());
            let end = third.continue_run().unwrap().end().await;
            assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
            assert_eq!(last_user(&model), RESULT);
            recorder.close().await.unwrap();
        });
    }
}

/// Ends in the middle of the model call after the deferred call, without any clean-up.
#[test]
#[ignore = "the child of another test"]
fn a_process_is_killed_with_a_deferred_call() {
    if !Path::new(GO).exists() {
        return;
    }
    block_on(async {
        let store = JsonStore::open(Path::new("sessions")).unwrap();
        let (mut agent, model) = agent(vec![call(), ScriptedReply::text("I").and_hang()]);
        let _recorder = SessionRecorder::attach(&mut agent, store);
        let _events = agent.prompt("Render it").unwrap();
        while model.requests().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        std::fs::write("waiting", "").unwrap();
        std::future::pending::<()>().await;
    });
}

#[test]
fn a_call_is_completed_after_its_process_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(GO), "").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            &scene::test_in(module_path!(), "a_process_is_killed_with_a_deferred_call"),
            "--ignored",
        ])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !dir.path().join("waiting").exists() {
        assert!(std::time::Instant::now() < deadline, "the child did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    block_on(async {
        let store = JsonStore::open(dir.path().join("sessions")).unwrap();
        assert_eq!(OpenRuns::deferred(&store).await.unwrap().calls.len(), 1);
        OpenRuns::complete(&store, "s-1", "c1", ToolResult::text("42 frames"), Timestamp(9)).await.unwrap();
        assert!(OpenRuns::deferred(&store).await.unwrap().calls.is_empty());
        let (agent, model) = agent(vec!["I wait.".into(), "It has 42 frames.".into()]);
        let (agent, recorder) = agent.restore_session(store, "s-1").await.unwrap();
        let again = agent.complete("c1", ToolResult::text("43")).unwrap_err();
        assert!(matches!(again, AgentError::Message(HistoryError::AlreadyCompleted(_))), "{again}");
        let _ = agent.resume().unwrap().end().await;
        assert_eq!(last_user(&model), RESULT);
        assert!(agent.history().deferred().is_empty());
        recorder.close().await.unwrap();
    });
}

/// A fork from before the result has the call open; one from after it has not.
#[test]
fn a_fork_has_the_state_of_its_point() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = JsonStore::open(dir.path()).unwrap();
        let (mut agent, _) = agent(vec![call(), "I wait.".into(), "It has 42 frames.".into()]);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let _ = agent.prompt("Render it").unwrap().end().await;
        agent.complete("c1", ToolResult::text("42 frames")).unwrap();
        let _ = agent.continue_run().unwrap().end().await;
        recorder.close().await.unwrap();
        let session = SessionStore::load_session(&store, "s-1").await.unwrap();
        let points = session.points();
        let mut open = Vec::new();
        for (n, point) in points.iter().enumerate() {
            let fork = session.forked(point, SessionId::from(format!("f-{n}")), Timestamp(20)).unwrap();
            let history = fork.history().unwrap();
            let (again, repairs) = agent_core::History::repaired(history.to_vec());
            assert_eq!((again.to_vec(), repairs), (history.to_vec(), vec![]));
            open.push(history.deferred().len());
        }
        assert_eq!((open.first(), open.last()), (Some(&0), Some(&0)), "{open:?}");
        assert!(open.contains(&1), "{open:?}");
    });
}

/// An agent that goes back to a point before the result, and records there, loads with the call open.
#[test]
fn a_rewound_session_waits_again_for_the_result() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let store = JsonStore::open(dir.path()).unwrap();
        let (mut first, _) = agent(vec![call(), "I wait.".into(), "42.".into(), "Still.".into()]);
        let recorder = SessionRecorder::attach(&mut first, store.clone());
        let _ = first.prompt("Render it").unwrap().end().await;
        let before = first.messages();
        first.complete("c1", ToolResult::text("42 frames")).unwrap();
        let _ = first.continue_run().unwrap().end().await;
        first.replace_messages(before.iter().map(|m| (**m).clone()).collect()).unwrap();
        let _ = first.prompt("Is it ready?").unwrap().end().await;
        assert_eq!(first.history().deferred().len(), 1);
        recorder.close().await.unwrap();
        let session = SessionStore::load_session(&store, "s-1").await.unwrap();
        assert_eq!(session.history().unwrap().to_vec(), first.history().to_vec());
        assert_eq!(session.deferred().unwrap().len(), 1);
    });
}
