//! The format of sessions: its schema, and samples of every version, which load for ever.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_core::tool::validate::{ArgumentValidator, SchemaValidator};
use agent_core::{
    Answer, BranchSpec, Budget, BudgetLimits, EventSender, LlmJudgeEvaluation, RunEnd, Spending, Timestamp,
    ToolExecutionStrategy,
};
use agent_session::{JsonStore, LoopStatus, Session, SessionRecorder, event_schema, session_schema};
use proptest::prelude::*;
use scene::{Act, Play, act, agent, block_on, each_store, perform, play};
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The schema in which nothing may stand that it does not name.
fn closed(mut schema: Value) -> Value {
    fn close(value: &mut Value) {
        match value {
            Value::Object(map) => {
                if map.contains_key("properties") {
                    map.insert("additionalProperties".into(), json!(false));
                }
                if let Some(Value::Array(shapes)) = map.get_mut("anyOf") {
                    shapes.retain(|s| s.get("title").is_none());
                }
                map.values_mut().for_each(close);
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schema);
    schema
}

#[track_caller]
fn assert_valid(schema: &Value, file: &Value) {
    match SchemaValidator.validate(schema, file.clone()) {
        // The validator would put a number in the place of a text that looks like one.
        Ok(valid) => assert_eq!(valid, *file),
        Err(errors) => panic!("{:?}", errors.errors().iter().map(ToString::to_string).collect::<Vec<_>>()),
    }
}

/// What a run of every kind leaves.
fn recorded(plays: &[Play], acts: &[Act]) -> Vec<Session> {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let mut agent = agent(plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, scene::Kind::Json.open(dir.path()));
        perform(&agent, acts).await;
        recorder.sessions()
    })
}

/// X1.
#[test]
fn the_schemas_in_docs_are_those_of_the_code() {
    for (name, schema) in [("session-v1.json", session_schema()), ("events-v1.json", event_schema())] {
        let text = std::fs::read_to_string(folder("../../docs/schema").join(name)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), schema, "{name}");
    }
}

/// The JSON of every event that a subscriber of such an agent receives.
fn live(plays: &[Play], acts: &[Act]) -> Vec<Value> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&events);
    block_on(async {
        let agent = agent(plays, ToolExecutionStrategy::Parallel);
        let _subscribed = agent.subscribe(move |event| {
            received.lock().unwrap().push(serde_json::to_value(event).unwrap());
        });
        perform(&agent, acts).await;
    });
    std::mem::take(&mut *events.lock().unwrap())
}

/// Every live event is as the schema says and reads back as the same event.
#[test]
fn every_event_of_a_run_is_as_the_schema_of_events_says() {
    let schema = closed(event_schema());
    let mut kinds = BTreeSet::new();
    let plays = [Play::Calls(vec!["say", "ask"]), Play::Text(40), Play::Calls(vec!["say"]), Play::Text(3)];
    for event in live(&plays, &[Act::Prompt(3), Act::Prompt(3)]) {
        kinds.insert(event["type"].as_str().unwrap().to_owned());
        assert_valid(&schema, &event);
        let read: agent_core::AgentEvent = serde_json::from_value(event.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), event);
    }
    for kind in ["agent_start", "message_update", "tool_execution_end", "turn_end", "agent_end"] {
        assert!(kinds.contains(kind), "{kind} is not in {kinds:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scene::cases(32), failure_persistence: None, ..ProptestConfig::default() })]

    /// X1: nothing is written that the schema does not name.
    #[test]
    fn whatever_is_recorded_is_as_the_schema_says(
        plays in prop::collection::vec(play(), 0..8),
        acts in prop::collection::vec(act(), 1..6),
    ) {
        let schema = closed(session_schema());
        for session in recorded(&plays, &acts) {
            assert_valid(&schema, &serde_json::to_value(&session).unwrap());
        }
        let schema = closed(event_schema());
        for event in live(&plays, &acts) {
            assert_valid(&schema, &event);
        }
    }
}

/// X1: parallel loops, budgets and forks are named in the schema, too.
#[test]
fn groups_budgets_and_forks_are_as_the_schema_says() {
    let schema = closed(session_schema());
    let limits = BudgetLimits::none().with_model_calls(5).with_tool_calls(1);
    let dir = tempfile::tempdir().unwrap();
    let plays =
        [Play::Calls(vec!["say", "say"]), Play::Text(40), Play::Text(3), Play::Text(4), Play::Text(5)];
    let session = block_on(async {
        let mut agent =
            agent(&plays, ToolExecutionStrategy::Sequential).with_budget(Budget::new(limits).pausing());
        let recorder = SessionRecorder::attach(&mut agent, scene::Kind::Json.open(dir.path()));
        drop(agent.prompt("go").unwrap());
        while let Some(RunEnd::Suspended(questions)) = agent.finish().await {
            let answer = Answer::Raise { by: Spending::of_tool_calls(1) };
            drop(agent.answer(questions[0].id.clone(), answer).unwrap());
        }
        let branch = || BranchSpec::asking("why?");
        let judge = LlmJudgeEvaluation::new(agent.config());
        let result = agent.explore_and_adopt([branch(), branch()], judge, EventSender::none()).await;
        result.unwrap();
        recorder.session("s-1").unwrap()
    });
    let file = serde_json::to_value(&session).unwrap();
    let text = file.to_string();
    for named in ["\"Budget\"", "\"raised\"", "\"judge\"", "\"selected_after_loops\"", "\"judge_loop_id\""] {
        assert!(text.contains(named), "{named} is in what is looked at");
    }
    assert_valid(&schema, &file);

    let fork = session.forked(&session.end_point().unwrap(), "s-2", Timestamp(9)).unwrap();
    let mut file = serde_json::to_value(&fork).unwrap();
    file["forked_from"]["files"] = json!({
        "src/new.rs": null,
        "src/old.rs": { "len": 3, "modified_ms": 9, "hash": "00000000000000ff" },
    });
    let fork: Session = serde_json::from_value(file.clone()).unwrap();
    assert_eq!(fork.forked_from.as_ref().unwrap().files.iter().count(), 2);
    assert_eq!(serde_json::to_value(&fork).unwrap(), file);
    assert_valid(&schema, &file);
}

#[test]
fn the_schema_refuses_what_is_no_session_and_takes_what_a_later_version_adds() {
    let plays = [Play::Calls(vec!["say"]), Play::Text(3)];
    let file = serde_json::to_value(&recorded(&plays, &[Act::Prompt(3)])[0]).unwrap();
    let schema = session_schema();
    let with = |pointer: &str, value: Value| {
        let mut file = file.clone();
        *file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
        file
    };
    for (pointer, value) in [
        ("/version", json!(2)),
        ("/session_id", Value::Null),
        ("/loops", json!({})),
        ("/loops/0/status", json!("Sleeping")),
        ("/loops/0/messages/0/role", json!("system")),
        ("/loops/0/turns/0/started_at", json!("soon")),
        ("/loops/0/events/0/event", json!({})),
    ] {
        assert!(SchemaValidator.validate(&schema, with(pointer, value)).is_err(), "{pointer}");
    }
    let mut later = with("/loops/0/events/0/event", json!({"type": "Dreamt", "of": 1}));
    later["new"] = json!({"field": [1]});
    assert_valid(&schema, &later);
}

/// X1, REQ-216: each of these was written by a version that was released, and none is ever changed.
#[test]
fn samples_of_every_version_load_and_are_kept_as_they_are() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder("tests/samples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some(id) = name.strip_suffix(".json") else { continue };
        seen += 1;
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(&path, dir.path().join(&name)).unwrap();
        let journal = path.with_file_name(format!("{id}.journal.jsonl"));
        if journal.exists() {
            std::fs::copy(&journal, dir.path().join(format!("{id}.journal.jsonl"))).unwrap();
        }
        let loaded = JsonStore::open(dir.path()).unwrap().load_session(id).unwrap();
        loaded.history().unwrap();
        loaded.open_run().unwrap();
        assert!(loaded.loops.iter().all(|r| r.events.iter().all(|e| e.known().is_some())), "{name}");
        let file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        if file["version"] == 1 {
            assert_valid(&session_schema(), &file);
        }
        if !journal.exists() && loaded.loops.iter().all(|r| r.status != LoopStatus::Interrupted) {
            assert_eq!(serde_json::to_value(&*loaded).unwrap(), file, "{name}");
        }
        each_store(|_, store| {
            store.save_session(&loaded).unwrap();
            assert_eq!(*store.load_session(id).unwrap(), *loaded, "{name}");
        });
    }
    assert!(seen >= 3, "{seen} samples");
}

/// The database of version 1 has a session of each sample, and one that is only in records.
#[cfg(feature = "sqlite")]
#[test]
fn a_database_of_version_1_loads_and_each_session_takes_the_new_form_when_it_is_saved() {
    use agent_session::{BlockingSessionStore as _, SessionQuery, SessionSummary, SqliteStore};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    std::fs::copy(folder("tests/samples/v1-sessions.db"), &path).unwrap();
    let count = |table: &str, id: &str| -> i64 {
        let sql =
            format!("SELECT count(*) FROM {table} JOIN sessions USING (session) WHERE sessions.id = ?1");
        rusqlite::Connection::open(&path).unwrap().query_row(&sql, [id], |row| row.get(0)).unwrap()
    };
    let store = SqliteStore::open(&path).unwrap();
    let searched = |store: &SqliteStore| -> Vec<_> {
        let query = SessionQuery::new().with_text("quoted word");
        let found = store.find_sessions(&query).unwrap();
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
        found.sessions
    };
    let hits = searched(&store);
    for (id, loops, events) in
        [("v1-whole", 5, 103), ("v1-waiting", 1, 12), ("v1-journal", 5, 103), ("v1-records", 2, 24)]
    {
        let loaded = store.load_session(id).unwrap();
        let sum = loaded.loops.iter().map(|r| r.events.len()).sum::<usize>();
        assert_eq!((loaded.loops.len(), sum), (loops, events), "{id}");
        loaded.history().unwrap();
        loaded.open_run().unwrap();
        assert!(count("loops", id) > 0 && count("lines", id) == 0, "{id}");

        store.save_session(&loaded).unwrap();
        let again = SqliteStore::open(&path).unwrap();
        assert_eq!(*again.load_session(id).unwrap(), *loaded, "{id}");
        assert!(count("loops", id) == 0 && count("records", id) == 0 && count("lines", id) > loops as i64);
        let found = again.find_sessions(&SessionQuery::new()).unwrap();
        let listed = found.sessions.iter().find(|s| s.summary.session_id.as_str() == id).unwrap();
        assert_eq!(listed.summary, SessionSummary::of(&loaded), "{id}");
    }
    let mut again = searched(&store);
    again.sort_by(|a, b| a.summary.session_id.cmp(&b.summary.session_id));
    let mut hits = hits;
    hits.sort_by(|a, b| a.summary.session_id.cmp(&b.summary.session_id));
    assert_eq!(again.len(), hits.len());
    for (now, before) in again.iter().zip(&hits) {
        assert_eq!(now.hits, before.hits);
    }
}
