//! The directory of sessions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::time::{Duration, SystemTime};

use agent_core::{AgentMessage, LoopId, Message, MessageRef, Timestamp, ToolExecutionStrategy, Usage};
use agent_session::{
    JsonStore, LoopRecord, LoopStatus, MAX_ID_BYTES, Session, SessionError, SessionRecorder,
};
use scene::{Act, Play, agent, perform};
use serde_json::{Value, json};

fn store() -> (tempfile::TempDir, JsonStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    (dir, store)
}

fn session(id: &str, agent: &str, loops: &[&str]) -> Session {
    let mut session = Session::new(id.into(), agent.into(), Timestamp(1));
    for loop_id in loops {
        let mut record = LoopRecord::new(LoopId::from(*loop_id), id.into(), agent.into(), Timestamp(2));
        record.status = LoopStatus::Completed;
        record.usage = Usage::new(10, 1, 0, 0);
        session.loops.push(record);
    }
    session
}

/// REQ-211, REQ-216.
#[test]
fn a_saved_session_loads_as_it_was_and_its_file_is_compact_json() {
    let (dir, store) = store();
    let mut saved = session("s-1", "a", &["s-1.m.1", "s-1.m.2"]);
    saved.loops[0].messages.push(MessageRef::from(AgentMessage::user("a\u{2028}b\n")));
    store.save_session(&saved).unwrap();
    assert_eq!(*store.load_session("s-1").unwrap(), saved);
    let text = std::fs::read_to_string(dir.path().join("s-1.json")).unwrap();
    let first = format!("{{\"version\":2,\"journal\":\"{:40}\",\"lines\":[\n{{\"crc\":\"", "none");
    assert!(text.starts_with(&first), "{text}");
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["lines"][0]["summary"]["loops"], 2);
    assert_eq!(saved.total_usage(), Usage::new(20, 2, 0, 0));
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["s-1.json"], "neither a lock nor a temporary file stays");
}

/// REQ-216.
#[test]
fn ids_are_listed_by_when_they_were_written_and_other_files_are_not() {
    let (dir, store) = store();
    for (id, age) in [("old", 300), ("new", 100), ("middle", 200)] {
        store.save_session(&session(id, "a", &[])).unwrap();
        let file = std::fs::File::options().append(true).open(dir.path().join(format!("{id}.json"))).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(10_000 - age)).unwrap();
    }
    std::fs::write(dir.path().join("notes.txt"), "x").unwrap();
    std::fs::write(dir.path().join(".hidden.json"), "x").unwrap();
    std::fs::create_dir(dir.path().join("folder.json")).unwrap();
    assert_eq!(store.list_session_ids().unwrap(), ["new", "middle", "old"]);
}

/// REQ-217.
#[test]
fn the_sessions_of_an_agent_are_found_and_a_bad_file_is_reported_beside_them() {
    let (dir, store) = store();
    store.save_session(&session("s-1", "mine", &[])).unwrap();
    store.save_session(&session("s-2", "other", &[])).unwrap();
    std::fs::write(dir.path().join("s-3.json"), "{").unwrap();
    let found = store.load_sessions_for_agent("mine").unwrap();
    assert_eq!(found.sessions.iter().map(|s| s.session_id.as_str()).collect::<Vec<_>>(), ["s-1"]);
    let [(id, SessionError::Corrupt { .. })] = &found.unreadable[..] else {
        panic!("{:?}", found.unreadable)
    };
    assert_eq!(id.as_str(), "s-3");
}

/// REQ-217.
#[test]
fn a_deleted_session_is_gone_and_one_that_is_not_there_is_not_found() {
    let (dir, store) = store();
    store.save_session(&session("s-1", "a", &[])).unwrap();
    std::fs::write(dir.path().join("s-1.journal.jsonl"), "").unwrap();
    store.delete_session("s-1").unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let text = store.delete_session("s-1").unwrap_err().to_string();
    assert!(text.starts_with("there is no session \"s-1\" in "), "{text}");
    assert!(matches!(store.load_session("s-1"), Err(SessionError::NotFound { .. })));
}

/// REQ-216, REQ-217.
#[test]
fn an_id_that_is_no_file_name_touches_no_file() {
    let (dir, store) = store();
    std::fs::write(dir.path().with_extension("json"), "outside").unwrap();
    let outside = format!("../{}", dir.path().file_name().unwrap().to_str().unwrap());
    let long = "x".repeat(MAX_ID_BYTES + 1);
    let bad = [
        "",
        ".",
        "..",
        "../x",
        &outside,
        "a/b",
        "a\\b",
        "/etc/passwd",
        "a\0b",
        "a:b",
        "a\nb",
        ".hidden",
        "end.",
        "CON",
        "nul.txt",
        "com1",
        "x.journal",
        &long,
        "a b",
        "a*",
        "C:x",
    ];
    for id in bad {
        let check = |result: Result<(), SessionError>| {
            assert!(matches!(result, Err(SessionError::InvalidId { .. })), "{id:?}: {result:?}");
        };
        check(store.load_session(id).map(drop));
        check(store.delete_session(id));
        check(store.save_session(&session(id, "a", &[])));
        check(store.path_of(id).map(drop));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    std::fs::remove_file(dir.path().with_extension("json")).unwrap();
    for good in ["s-1", "a.b.1", "3f0c-77", "größe", "common", "user@host"] {
        store.save_session(&session(good, "a", &[])).unwrap();
        store.load_session(good).unwrap();
    }
}

/// D30, B-179.
#[test]
fn an_older_copy_of_a_session_erases_no_newer_loop() {
    let (_dir, store) = store();
    store.save_session(&session("s-1", "a", &["s-1.m.1", "s-1.m.2"])).unwrap();
    store.save_session(&session("s-1", "a", &["s-1.m.1", "s-1.m.3"])).unwrap();
    let loaded = store.load_session("s-1").unwrap();
    let ids: Vec<&str> = loaded.loops.iter().map(|r| r.loop_id.as_str()).collect();
    assert_eq!(ids, ["s-1.m.1", "s-1.m.2", "s-1.m.3"]);
}

/// B-180.
#[tokio::test]
async fn the_second_writer_of_a_session_is_told_and_may_write_when_the_first_has_closed() {
    let (_dir, store) = store();
    let mut first = agent(&[Play::Text(3)], ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    perform(&first, &[Act::Prompt(3)]).await;

    let mut second = agent(&[Play::Text(3), Play::Text(3)], ToolExecutionStrategy::Parallel);
    let other = SessionRecorder::attach(&mut second, store.clone());
    let error = second.chat("Hi").await.unwrap_err().to_string();
    assert!(error.contains("another process or recorder is writing this session"), "{error}");
    assert!(second.history().is_empty() || second.history().last_reply().is_none_or(|r| r.text().is_empty()));
    assert!(matches!(other.ready("s-1").await, Err(SessionError::Locked { .. })));
    assert_eq!(store.load_session("s-1").unwrap().loops.len(), 1, "reading is allowed");

    recorder.close().await.unwrap();
    other.ready("s-1").await.unwrap();
}

/// B-181.
#[test]
fn what_a_later_version_added_survives_a_load_a_new_loop_and_a_save() {
    let (dir, store) = store();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plays = [Play::Calls(vec!["say"]), Play::Text(200), Play::Text(3)];
    runtime.block_on(async {
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        perform(&agent, &[Act::Prompt(150)]).await;
        recorder.close().await.unwrap();
        let path = dir.path().join("s-1.json");
        // A file of form 1.
        let mut file = serde_json::to_value(&*store.load_session("s-1").unwrap()).unwrap();
        let strange = json!({"$raw": {"$text": {"deep": [1, 2.5, null]}}});
        for pointer in [
            "",
            "/formation/FirstLoop",
            "/loops/0",
            "/loops/0/config",
            "/loops/0/messages/0",
            "/loops/0/turns/1",
            "/loops/0/messages/1/content/0",
            "/loops/0/events/0/event",
            "/loops/0/usage",
        ] {
            let map =
                file.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")).as_object_mut().unwrap();
            map.insert("from_2030".into(), json!({ "kept": pointer, "also": [strange] }));
        }
        let events = file["loops"][0]["events"].as_array_mut().unwrap();
        let sequence = events.len();
        let text = "long ".repeat(100);
        events.push(json!({"sequence": sequence, "event": {"type": "Dreamt", "loop_id": "x", "text": text}}));
        std::fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();

        perform(&agent, &[Act::Prompt(3)]).await;
        recorder.close().await.unwrap();
        let mut saved = serde_json::to_value(&*store.load_session("s-1").unwrap()).unwrap();
        assert_eq!(saved["loops"].as_array_mut().unwrap().pop().unwrap()["status"], "Completed");
        saved["last_active_at"] = file["last_active_at"].clone();
        saved["journal_records"] = file["journal_records"].clone();
        assert_eq!(saved, file);
    });
}

/// B-188, B-179.
#[tokio::test]
async fn a_line_separator_in_a_text_ends_no_record() {
    let (dir, store) = store();
    let mut agent = agent(&[Play::Text(0)], ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let text = "a\u{2028}b\u{2029}c\u{85}d\re\nf\u{0}g";
    drop(agent.prompt(text).unwrap());
    agent.finish().await;
    let lines = std::fs::read(dir.path().join("s-1.journal.jsonl")).unwrap();
    assert!(String::from_utf8(lines).unwrap().contains('\u{2028}'));
    let loaded = store.load_session("s-1").unwrap();
    let Some(Message::User(user)) = loaded.loops[0].messages[0].as_llm() else { panic!() };
    assert_eq!(Message::User(user.clone()).text(), text);
    drop(recorder);
}

/// Details that are nested as deep as is allowed, and objects that look like references.
#[tokio::test]
async fn what_tools_give_loads_again_whatever_it_looks_like() {
    use agent_core::testing::ScriptedTool;
    use agent_core::{MAX_VALUE_DEPTH, ToolResult};
    let (_dir, store) = store();
    let mut deep = json!("bottom");
    // With the two levels around it, as deep as a value may be.
    for _ in 0..MAX_VALUE_DEPTH - 2 {
        deep = json!([deep]);
    }
    let details = json!({"deep": deep, "a": {"$text": "/messages/0"}, "b": {"$raw": {"$json": "["}}, "c": {"$json": 1}});
    let given = details.clone();
    let tool = ScriptedTool::new("say", move |_, _| {
        let result = ToolResult::text("x".repeat(500)).with_details(given.clone());
        async move { Ok(result) }
    });
    let mut agent = agent(&[Play::Calls(vec!["say"])], ToolExecutionStrategy::Parallel);
    agent.set_tools(vec![std::sync::Arc::new(tool)]);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    perform(&agent, &[Act::Prompt(3)]).await;
    let details_of = |session: &Session| match session.loops[0].messages[2].as_llm() {
        Some(Message::ToolResult(result)) => result.details.clone(),
        other => panic!("{other:?}"),
    };
    let from_journal = store.load_session("s-1").unwrap();
    assert_eq!(details_of(&from_journal), details);
    recorder.close().await.unwrap();
    let from_file = store.load_session("s-1").unwrap();
    assert_eq!(details_of(&from_file), details);
    assert_eq!(from_file.loops, from_journal.loops);
}

/// Conversations are for their owner.
#[cfg(unix)]
#[tokio::test]
async fn nobody_else_may_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, store) = store();
    let mut agent = agent(&[Play::Text(3)], ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut agent, store);
    perform(&agent, &[Act::Prompt(3)]).await;
    let check = |name: &str| {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    };
    check("s-1.journal.jsonl");
    recorder.save().await.unwrap();
    check("s-1.json");
    assert!(!dir.path().join("s-1.journal.jsonl").exists(), "the file has its records");
}

/// A session never outgrows the limit for reading: the next prompt is refused, and what was acknowledged loads.
#[tokio::test]
async fn a_session_that_becomes_too_large_refuses_the_next_prompt_and_still_loads() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap().with_max_file_bytes(40_000);
    let plays: Vec<Play> = (0..100).map(|_| Play::Text(500)).collect();
    let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let mut completed = 0;
    let error = loop {
        match agent.chat("more").await {
            Ok(_) => completed += 1,
            Err(error) => break error.to_string(),
        }
        if completed % 3 == 0 {
            recorder.save().await.unwrap();
        }
        assert!(completed < 100, "the limit is never reached");
    };
    assert!(error.contains("is full"), "{error}");
    assert!(completed > 5, "{completed}");
    let loaded = store.load_session("s-1").unwrap();
    assert_eq!(loaded.loops.iter().filter(|r| r.status == LoopStatus::Completed).count(), completed);
    recorder.close().await.unwrap();
    let size = std::fs::metadata(dir.path().join("s-1.json")).unwrap().len();
    assert!(size <= 40_000, "{size}");
    assert_eq!(store.load_session("s-1").unwrap().history().unwrap().len(), loaded.history().unwrap().len());
}
