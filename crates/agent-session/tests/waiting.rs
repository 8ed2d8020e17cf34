//! Questions that wait in a store, answered by another process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "the child is this test itself, on files of this test")]

mod scene;

use std::path::Path;
use std::process::{Command, Stdio};

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{AgentError, AgentEvent, Answer, BasicAgent, Effects, ModelConfig, RunEnd, Timestamp};
use agent_session::{LoopStatus, OpenRuns, RestoreSession, SessionError, SessionRecorder};
use scene::{Kind, Store, kinds};
use serde_json::json;

/// The file without which a child does nothing, so that running all ignored tests does no harm.
const GO: &str = "go";

fn tool() -> ScriptedTool {
    ScriptedTool::saying("deploy", "deployed").with_effects(Effects::Once).asking("Deploy to production?")
}

fn agent(replies: Vec<ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
        .with_tool(tool())
}

fn deploys(calls: &[&str]) -> ScriptedReply {
    calls.iter().fold(ScriptedReply::new(), |r, id| r.and_call(id, "deploy", json!({ "to": *id })))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn child(dir: &Path, name: &str) {
    std::fs::write(dir.join(GO), "").unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &scene::test_in(module_path!(), name), "--ignored"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{name}");
}

/// Asks and ends, as a program does that will not wait for a person.
#[test]
#[ignore = "the child of another test"]
fn the_first_process_asks() {
    if !Path::new(GO).exists() {
        return;
    }
    block_on(async {
        let mut agent = agent(vec![deploys(&["c1"])]);
        let recorder = SessionRecorder::attach(&mut agent, Kind::noted(Path::new(".")).open(Path::new(".")));
        drop(agent.prompt("Deploy it, please.").unwrap());
        assert!(matches!(agent.finish().await, Some(RunEnd::Suspended(_))));
        // Not closed: the process is gone before anybody could.
        std::mem::forget(recorder);
        std::process::exit(0);
    });
}

/// Lists, shows and answers; it has neither model nor tools.
#[test]
#[ignore = "the child of another test"]
fn the_second_process_answers() {
    if !Path::new(GO).exists() {
        return;
    }
    let store = Kind::noted(Path::new(".")).open(Path::new("."));
    let found = block_on(store.unfinished()).unwrap();
    let [waiting] = found.waiting()[..] else { panic!("{found:?}") };
    assert_eq!((waiting.session_id.as_str(), waiting.status), ("s-1", LoopStatus::Suspended));
    assert_eq!(waiting.prompt, "Deploy it, please.");
    let [question] = &waiting.questions[..] else { panic!("{waiting:?}") };
    assert_eq!(question.text, "Deploy to production?");
    assert_eq!(question.call.as_ref().unwrap().name, "deploy");
    let answer = store.answer("s-1", question.id.clone(), Answer::Allow, Timestamp(u64::from(u32::MAX)));
    let answered = block_on(answer).unwrap();
    assert!(answered.questions.is_empty());
}

/// X5: suspended in one process, answered in a second, run on in a third.
#[test]
fn a_question_of_one_process_is_answered_by_a_second_and_the_run_goes_on_in_a_third() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        kind.note(dir.path());
        child(dir.path(), "the_first_process_asks");
        kind.after_kill(dir.path());
        child(dir.path(), "the_second_process_answers");
        let store = kind.open(dir.path());
        let found = block_on(store.unfinished()).unwrap();
        assert!(found.waiting().is_empty(), "nobody is asked any more");
        assert_eq!((found.runs.len(), found.runs[0].status), (1, LoopStatus::Interrupted));
        block_on(async {
            let tool = tool();
            let mut agent = BasicAgent::new(ModelConfig::default())
                .with_provider(ScriptedProvider::new([ScriptedReply::text("It is out.")]))
                .with_tool(tool.clone())
                .restore_unrecorded(&store.load_session("s-1").unwrap())
                .unwrap();
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            drop(agent.resume().unwrap());
            let Some(RunEnd::Completed(_)) = agent.finish().await else { panic!() };
            assert_eq!(tool.calls(), [json!({ "to": "c1" })], "allowed once, run once");
            recorder.close().await.unwrap();
            let session = store.load_session("s-1").unwrap();
            assert_eq!(session.history().unwrap(), agent.history());
            let answers = session.loops[0].events.iter().filter_map(|e| e.known());
            let answers: Vec<_> =
                answers.filter(|e| matches!(e, AgentEvent::QuestionAnswered { .. })).collect();
            assert_eq!(answers.len(), 1, "who answered is on record once");
            assert!(store.unfinished().await.unwrap().runs.is_empty());
        });
    }
}

async fn asked(kind: Kind, dir: &Path, calls: &[&str]) -> Store {
    let store = kind.open(dir);
    let mut agent = agent(vec![deploys(calls)]);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    drop(agent.prompt("go").unwrap().collect().await);
    recorder.close().await.unwrap();
    store
}

/// The run continues its numbers after it was loaded from a store, and after an answer that another process applied. The
/// numbers follow from the recorded events; no file has them.
#[tokio::test]
async fn the_numbers_of_events_continue_after_an_answer_and_a_restart() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut first = agent(vec![deploys(&["c1"])]);
        let recorder = SessionRecorder::attach(&mut first, store.clone());
        let before = first.prompt("go").unwrap().collect_numbered().await;
        recorder.close().await.unwrap();
        drop((first, recorder));
        store.answer("s-1", "c1", Answer::Allow, Timestamp(5)).await.unwrap();

        let loaded = store.load_session("s-1").unwrap();
        let answered = loaded.loops[0].events.len() as u64;
        assert_eq!(loaded.open_run().unwrap().unwrap().event_count(), answered);
        let mut second = BasicAgent::new(ModelConfig::default())
            .with_provider(ScriptedProvider::texts(["done"]))
            .with_tool(tool())
            .restore_unrecorded(&loaded)
            .unwrap();
        let recorder = SessionRecorder::attach(&mut second, store.clone());
        let after = second.resume().unwrap().collect_numbered().await;
        recorder.close().await.unwrap();
        assert_eq!(after[0].number, answered + 1, "{:?}", after[0].event);

        let record = &store.load_session("s-1").unwrap().loops[0];
        for event in before.iter().chain(&after).filter(|event| !event.is_live()) {
            let at = usize::try_from(event.number).unwrap() - 1;
            assert_eq!(record.events[at].sequence + 1, event.number);
            assert_eq!(record.events[at].known(), Some(&event.event));
        }
        assert_eq!(after.last().unwrap().number, record.events.len() as u64);
        if matches!(kind, Kind::Json) {
            let text = std::fs::read_to_string(dir.path().join("sessions/s-1.json")).unwrap();
            assert!(!text.contains("\"number\"") && !text.contains("emitted"), "{text}");
        }
    }
}

/// X5.
#[tokio::test]
async fn of_several_questions_each_is_answered_by_itself_in_any_order() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = asked(*kind, dir.path(), &["c1", "c2", "c3"]).await;
        let deny = Answer::Deny { reason: "not this one".into() };
        let left = store.answer("s-1", "c2", deny, Timestamp(2)).await.unwrap();
        assert_eq!(left.questions.len(), 2);
        let other = Answer::AllowWith(json!({ "to": "elsewhere" }));
        store.answer("s-1", "c3", other, Timestamp(3)).await.unwrap();
        let again = store.answer("s-1", "c3", Answer::Allow, Timestamp(4)).await.unwrap_err();
        assert!(matches!(&again, SessionError::Agent(AgentError::Answer(_))), "{again}");
        let waiting = store.unfinished().await.unwrap();
        assert_eq!(waiting.waiting()[0].questions[0].id, *"c1");
        let done = store.answer("s-1", "c1", Answer::Allow, Timestamp(5)).await.unwrap();
        assert_eq!(
            (done.questions.len(), done.status),
            (0, LoopStatus::Interrupted),
            "it only has to be resumed"
        );

        let tool = tool();
        let agent = BasicAgent::new(ModelConfig::default())
            .with_provider(ScriptedProvider::texts(["done"]))
            .with_tool(tool.clone())
            .restore_unrecorded(&store.load_session("s-1").unwrap())
            .unwrap();
        drop(agent.resume().unwrap().collect().await);
        let mut calls = tool.calls();
        calls.sort_by_key(ToString::to_string);
        assert_eq!(calls, [json!({ "to": "c1" }), json!({ "to": "elsewhere" })]);
        let messages = agent.messages();
        let results: Vec<String> = messages[2..5].iter().map(|m| m.text()).collect();
        assert_eq!(results, ["deployed", "not this one", "deployed"]);
    }
}

/// X5: an answer that cannot be given changes nothing.
#[tokio::test]
async fn what_does_not_wait_is_not_answered_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let store = asked(Kind::Json, dir.path(), &["c1"]).await;
    let bytes = || std::fs::read(dir.path().join("sessions/s-1.json")).unwrap();
    let before = bytes();
    let wrong = store.answer("s-1", "c9", Answer::Allow, Timestamp(2)).await.unwrap_err();
    assert!(matches!(&wrong, SessionError::Agent(AgentError::Answer(_))), "{wrong}");
    let none = store.answer("s-9", "c1", Answer::Allow, Timestamp(2)).await.unwrap_err();
    assert!(matches!(&none, SessionError::NotFound { .. }), "{none}");
    assert_eq!(bytes(), before);

    // It was ended instead.
    let mut there = agent(Vec::new()).restore_unrecorded(&store.load_session("s-1").unwrap()).unwrap();
    let recorder = SessionRecorder::attach(&mut there, store.clone());
    there.abort();
    there.finish().await;
    recorder.close().await.unwrap();
    let over = store.answer("s-1", "c1", Answer::Allow, Timestamp(2)).await.unwrap_err();
    assert!(matches!(&over, SessionError::NotWaiting { .. }), "{over}");

    // One that cannot be read is named beside the others.
    std::fs::write(dir.path().join("sessions/s-2.json"), "{").unwrap();
    let found = store.unfinished().await.unwrap();
    assert_eq!((found.runs.len(), found.unreadable[0].0.as_str()), (0, "s-2"));
}

/// X5, B-180.
#[tokio::test]
async fn where_a_process_has_the_session_open_the_answer_is_to_be_given_there() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let mut agent = agent(vec![deploys(&["c1"]), ScriptedReply::text("done")]);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        drop(agent.prompt("go").unwrap().collect().await);
        assert_eq!(store.unfinished().await.unwrap().waiting().len(), 1, "it is listed all the same");
        let locked = store.answer("s-1", "c1", Answer::Allow, Timestamp(2)).await.unwrap_err();
        assert!(matches!(&locked, SessionError::Locked { .. }), "{locked}");
        drop(agent.answer("c1", Answer::Allow).unwrap().collect().await);
        recorder.close().await.unwrap();
        assert_eq!(store.load_session("s-1").unwrap().loops[0].status, LoopStatus::Completed);
    }
}

/// X5: only the sessions that may wait are loaded.
#[tokio::test]
async fn of_many_sessions_those_that_are_over_are_not_unfinished() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = asked(*kind, dir.path(), &["c1"]).await;
        for n in 2..6 {
            let mut done = BasicAgent::new(ModelConfig::default())
                .with_provider(ScriptedProvider::texts(["done"]))
                .with_session_id(format!("s-{n}"));
            let recorder = SessionRecorder::attach(&mut done, store.clone());
            done.chat("go").await.unwrap();
            recorder.close().await.unwrap();
        }
        let open = store.list_open_session_ids().unwrap();
        assert_eq!(open, ["s-1"]);
        let found = store.unfinished().await.unwrap();
        let ids: Vec<_> = found.runs.iter().map(|run| run.session_id.as_str()).collect();
        assert_eq!((ids.as_slice(), found.unreadable.len()), (&["s-1"][..], 0));
        store.answer("s-1", "c1", Answer::Allow, Timestamp(7)).await.unwrap();
        assert_eq!(
            store.unfinished().await.unwrap().runs[0].status,
            LoopStatus::Interrupted,
            "to be resumed"
        );
    }
}

/// Attack 6: the approver of one call does not approve another one that took its place.
#[test]
fn an_answer_to_a_call_that_was_not_shown_is_refused() {
    for kind in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let store = kind.open(dir.path());
        let seen = {
            block_on(async {
                let mut agent = agent(vec![deploys(&["c1"])]);
                let recorder = SessionRecorder::attach(&mut agent, store.clone());
                drop(agent.prompt("Deploy it, please.").unwrap());
                assert!(matches!(agent.finish().await, Some(RunEnd::Suspended(_))));
                recorder.close().await.unwrap();
            });
            let run = store.load_session("s-1").unwrap().unfinished().unwrap().unwrap();
            run.questions[0].approval().unwrap()
        };
        let mut forged = seen.clone();
        forged.arguments = json!({"to": "c1", "force": true});
        assert_ne!(seen.hash(), forged.hash());
        let at = Timestamp(u64::from(u32::MAX));
        let refused = block_on(store.answer_approval("s-1", &forged, Answer::Allow, at));
        assert!(matches!(refused, Err(SessionError::QuestionChanged { .. })), "{refused:?}");
        assert_eq!(block_on(store.unfinished()).unwrap().waiting().len(), 1, "nothing was stored");
        let answered = block_on(store.answer_approval("s-1", &seen, Answer::Allow, at)).unwrap();
        assert!(answered.questions.is_empty());
    }
}

/// Sessions are for their owner only, wherever the folder is.
#[cfg(unix)]
#[test]
fn new_folders_of_a_store_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    for kind in kinds().iter().filter(|kind| kind.is_in_folder()) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        drop(kind.open(&folder));
        for made in ["a", "a/b"] {
            let mode = std::fs::metadata(dir.path().join(made)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{made}");
        }
    }
}
