//! Samples of form 2 and of version 1 of snapshots and events. They load in every later version and never change.
//!
//! Each session has a file `{id}.meaning.json` beside it: the session that the other files must load as.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agent_core::compat::SeedSetters as _;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, AgentSnapshot, Answer, BasicAgent, BranchSpec, Budget, BudgetLimits, EventSender,
    LlmJudgeEvaluation, ModelConfig, RunEnd, Spending, ToolExecutionStrategy, ToolResult, Usage,
};
use agent_session::{JsonStore, OpenRuns as _, Session, SessionQuery, SessionRecorder, SessionStore};
use scene::{Act, Play, agent, block_on, each_store, perform};
use serde_json::{Value, json};

/// The sessions, and the number of loops of each.
const SESSIONS: &[(&str, usize)] =
    &[("whole", 5), ("journal", 5), ("waiting", 1), ("groups", 4), ("deferred", 1), ("fork", 2)];

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/form-2")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(samples().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn meaning(id: &str) -> Session {
    serde_json::from_str(&read(&format!("{id}.meaning.json"))).unwrap()
}

/// A copy of the samples, which a test may change.
fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(samples()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.contains(".meaning.") && !name.starts_with("events") && !name.starts_with("snapshot") {
            std::fs::copy(&path, dir.path().join(name)).unwrap();
        }
    }
    dir
}

/// What lists and searches say of the samples.
async fn check_lists(store: &impl SessionStore) {
    let found = store.find_sessions(&SessionQuery::new()).await.unwrap();
    assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
    let ids: BTreeSet<&str> = found.sessions.iter().map(|s| s.summary.session_id.as_str()).collect();
    assert_eq!(ids, SESSIONS.iter().map(|(id, _)| *id).collect());
    let waiting = store.unfinished().await.unwrap();
    assert!(waiting.runs.iter().any(|run| run.session_id.as_str() == "waiting"), "{:?}", waiting.runs);
    let deferred = store.deferred().await.unwrap();
    assert_eq!(deferred.calls[0].call.handle.as_str(), "job-1");
    let hits = store.find_sessions(&SessionQuery::new().with_text("quoted word")).await.unwrap();
    assert!(hits.sessions.iter().any(|s| s.summary.session_id.as_str() == "whole"));
}

/// X1, REQ-216.
#[test]
fn files_of_form_2_load_with_the_same_meaning_for_ever() {
    let dir = copy();
    let store = JsonStore::open(dir.path()).unwrap();
    for (id, loops) in SESSIONS {
        let loaded = store.load_session(id).unwrap();
        assert_eq!(*loaded, meaning(id), "{id}");
        assert_eq!(loaded.loops.len(), *loops, "{id}");
        loaded.history().unwrap();
        loaded.open_run().unwrap();
        assert!(loaded.loops.iter().all(|r| r.events.iter().all(|e| e.known().is_some())), "{id}");
        each_store(|_, other| {
            block_on(other.save_session(&loaded)).unwrap();
            assert_eq!(*block_on(other.load_session(id)).unwrap(), *loaded, "{id}");
        });
    }
    block_on(check_lists(&store));
}

/// X1, REQ-216.
#[cfg(feature = "sqlite")]
#[test]
fn a_database_of_form_2_loads_with_the_same_meaning_for_ever() {
    let dir = copy();
    let store = agent_session::SqliteStore::open(dir.path().join("sessions.db")).unwrap();
    for (id, _) in SESSIONS {
        assert_eq!(*block_on(store.load_session(id)).unwrap(), meaning(id), "{id}");
    }
    block_on(check_lists(&store));
}

/// A suspended run of a sample is answered and ends.
#[test]
fn a_suspended_run_of_the_samples_is_continued() {
    block_on(async {
        let dir = copy();
        let store = JsonStore::open(dir.path()).unwrap();
        let agent = agent(&[Play::Text(9)], ToolExecutionStrategy::Parallel);
        let (agent, recorder) =
            agent_session::RestoreSession::restore_session(agent, store.clone(), "waiting").await.unwrap();
        let Some(RunEnd::Suspended(questions)) = agent.finish().await else { panic!("it is not suspended") };
        drop(agent.answer(questions[0].id.clone(), Answer::Allow).unwrap());
        assert!(matches!(agent.finish().await, Some(RunEnd::Completed(_))));
        recorder.close().await.unwrap();
        assert!(store.load_session("waiting").unwrap().loops.len() == 1);
    });
}

/// The conversation of a snapshot and its suspended run are continued by a new agent.
#[test]
fn a_snapshot_of_version_1_is_restored_and_its_run_continues() {
    let text = read("snapshot-v1.json");
    let snapshot: AgentSnapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(snapshot.version, 1);
    assert_eq!(
        serde_json::to_value(&snapshot).unwrap(),
        serde_json::from_str::<Value>(&text).unwrap(),
        "nothing of the snapshot is lost"
    );
    block_on(async {
        let agent = agent(&[Play::Text(9)], ToolExecutionStrategy::Parallel).restore(snapshot).unwrap();
        let Some(RunEnd::Suspended(questions)) = agent.finish().await else { panic!("it is not suspended") };
        drop(agent.answer(questions[0].id.clone(), Answer::Allow).unwrap());
        assert!(matches!(agent.finish().await, Some(RunEnd::Completed(_))));
        assert!(agent.history().len() > 4);
    });
}

/// Each line is an event as a subscriber receives it.
#[test]
fn events_of_version_1_are_read_and_written_as_they_are() {
    let mut kinds = BTreeSet::new();
    for line in read("events-v1.jsonl").lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let event: AgentEvent = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&event).unwrap(), value);
        kinds.insert(value["type"].as_str().unwrap().to_owned());
    }
    assert!(kinds.len() >= 18, "{} kinds: {kinds:?}", kinds.len());
}

/// Writes the samples. They are never written again: a later form gets files of its own.
#[test]
#[ignore = "it writes files that never change afterwards"]
fn write_samples() {
    assert!(
        std::fs::read_dir(samples()).unwrap().next().is_none(),
        "the samples are written already, and never change"
    );
    let json = tempfile::tempdir().unwrap();
    let store = JsonStore::open(json.path()).unwrap();
    let mut events = BTreeMap::new();
    block_on(record(store.clone(), &mut events));
    for (id, _) in SESSIONS {
        let mut files = 0;
        for ending in ["json", "journal.jsonl"] {
            let path = json.path().join(format!("{id}.{ending}"));
            if path.metadata().is_ok_and(|m| m.len() > 0) {
                std::fs::copy(&path, samples().join(format!("{id}.{ending}"))).unwrap();
                files += 1;
            }
        }
        assert!(files > 0, "{id}");
        let text = serde_json::to_string(&*store.load_session(id).unwrap()).unwrap();
        std::fs::write(samples().join(format!("{id}.meaning.json")), text).unwrap();
    }
    let lines: String = events.values().map(|event| format!("{event}\n")).collect();
    std::fs::write(samples().join("events-v1.jsonl"), lines).unwrap();
    block_on(write_snapshot());
    #[cfg(feature = "sqlite")]
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.db");
        let store = agent_session::SqliteStore::open(&path).unwrap();
        block_on(record(store.clone(), &mut BTreeMap::new()));
        // Branches run at the same time, so a second recording has another order of events.
        for id in ["groups", "fork"] {
            block_on(store.save_session(&meaning(id))).unwrap();
        }
        let target = samples().join("sessions.db");
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute("VACUUM INTO ?1", [target.to_str().unwrap()]).unwrap();
    }
}

/// Records all sessions, and keeps an event of each kind.
async fn record(store: impl SessionStore + Clone + 'static, events: &mut BTreeMap<String, Value>) {
    let plays = [
        Play::Calls(vec!["say", "fail", "ask"]),
        Play::Retried,
        Play::TextAndCall(120),
        Play::Cut(50),
        Play::Text(200),
        Play::Calls(vec!["say", "say"]),
        Play::Calls(vec!["say", "unknown"]),
        Play::Text(150),
        Play::Overflows,
        Play::Text(9),
        Play::Fails,
    ];
    let (prompt, short) = (Act::Prompt(300), Act::Prompt(9));
    let acts = [prompt, Act::Steer, Act::Prompt(20), Act::Note, short.clone(), short.clone(), short];
    let kept = std::sync::Arc::new(std::sync::Mutex::new(std::mem::take(events)));
    let listen = |agent: &BasicAgent| {
        let kept = std::sync::Arc::clone(&kept);
        std::mem::forget(agent.subscribe(move |event| {
            let event = serde_json::to_value(event).unwrap();
            // The updates of a reply have a kind of their own for each delta.
            let delta = event["delta"]["type"].as_str().unwrap_or_default();
            let kind = format!("{} {delta}", event["type"].as_str().unwrap());
            kept.lock().unwrap().entry(kind).or_insert(event);
        }));
    };
    for (id, saved) in [("whole", acts.len()), ("journal", 3)] {
        let mut agent =
            agent(&plays, ToolExecutionStrategy::Parallel).with_session_id(id).with_agent_id("agent");
        listen(&agent);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        perform(&agent, &acts[..saved]).await;
        recorder.save().await.unwrap();
        perform(&agent, &acts[saved..]).await;
        std::mem::forget((agent, recorder));
    }
    let mut waiting =
        agent(&plays, ToolExecutionStrategy::Parallel).with_session_id("waiting").with_agent_id("agent");
    let recorder = SessionRecorder::attach(&mut waiting, store.clone());
    drop(waiting.prompt("May I?").unwrap());
    assert!(matches!(waiting.finish().await, Some(RunEnd::Suspended(_))));
    recorder.close().await.unwrap();

    let limits = BudgetLimits::none().with_model_calls(5).with_tool_calls(1);
    let plays =
        [Play::Calls(vec!["say", "say"]), Play::Text(40), Play::Text(3), Play::Text(4), Play::Text(5)];
    let mut groups = agent(&plays, ToolExecutionStrategy::Sequential)
        .with_session_id("groups")
        .with_agent_id("agent")
        .with_budget(Budget::new(limits).pausing());
    listen(&groups);
    let recorder = SessionRecorder::attach(&mut groups, store.clone());
    drop(groups.prompt("go").unwrap());
    while let Some(RunEnd::Suspended(questions)) = groups.finish().await {
        let answer = Answer::Raise { by: Spending::of_tool_calls(1) };
        drop(groups.answer(questions[0].id.clone(), answer).unwrap());
    }
    let branch = || BranchSpec::asking("why?");
    let judge = LlmJudgeEvaluation::new(groups.config());
    groups.explore_and_adopt([branch(), branch()], judge, EventSender::none()).await.unwrap();
    let session = recorder.session("groups").unwrap();
    let at = agent_core::Timestamp(9);
    let fork = session.forked(&session.end_point().unwrap(), "fork", at).unwrap();
    recorder.close().await.unwrap();
    store.save_session(&fork).await.unwrap();

    let call = ScriptedReply::call("c1", "render", json!({})).using(Usage::new(7, 3, 5, 2));
    let render = ScriptedTool::new("render", |_, _| async { Ok(ToolResult::deferred("job-1")) });
    let mut deferred = BasicAgent::new(ModelConfig::default())
        .with_environment(std::sync::Arc::new(ManualEnvironment::skipping(1_000)))
        .with_provider(ScriptedProvider::new([call, "I will tell you.".into()]))
        .with_session_id("deferred")
        .with_agent_id("agent")
        .with_tool(render);
    listen(&deferred);
    let recorder = SessionRecorder::attach(&mut deferred, store);
    let _ = deferred.prompt("Render it").unwrap().end().await;
    recorder.close().await.unwrap();
    *events = std::mem::take(&mut *kept.lock().unwrap());
}

async fn write_snapshot() {
    let plays = [Play::Text(40), Play::Calls(vec!["say", "ask"])];
    let agent = agent(&plays, ToolExecutionStrategy::Parallel).with_session_id("s-1");
    perform(&agent, &[Act::Prompt(20), Act::Note]).await;
    drop(agent.prompt("May I?").unwrap());
    assert!(matches!(agent.finish().await, Some(RunEnd::Suspended(_))));
    agent.follow_up("and then?");
    let text = serde_json::to_string_pretty(&agent.snapshot()).unwrap();
    std::fs::write(samples().join("snapshot-v1.json"), text + "\n").unwrap();
}
