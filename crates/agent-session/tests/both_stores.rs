//! What every store promises, shown for each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::sync::Arc;

use agent_core::journal::JournalWarning;
use agent_core::{
    AgentEvent, AgentMessage, LoopId, Message, MessageRef, RunEnd, Timestamp, ToolExecutionStrategy, Usage,
};
use agent_session::{
    BlockingSessionStore, JsonStore, LoopRecord, LoopStatus, MAX_ID_BYTES, RestoreSession, Session,
    SessionError, SessionRecorder,
};
use scene::{Act, Play, agent, block_on, each_store, perform};
use serde_json::{Value, json};

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
fn a_saved_session_loads_as_it_was() {
    each_store(|_, store| {
        let mut saved = session("s-1", "a", &["s-1.m.1", "s-1.m.2"]);
        saved.loops[0].messages.push(MessageRef::from(AgentMessage::user("a\u{2028}b\n\u{0}")));
        store.save_session(&saved).unwrap();
        assert_eq!(*store.load_session("s-1").unwrap(), saved);
        // A shorter list of messages takes the place of a longer one, and others the place of others.
        saved.loops[0].messages = vec![MessageRef::from(AgentMessage::user("c"))];
        saved.loops[1].messages = vec![MessageRef::from(AgentMessage::user("d")); 3];
        store.save_session(&saved).unwrap();
        assert_eq!(*store.load_session("s-1").unwrap(), saved);
    });
}

/// REQ-216.
#[test]
fn ids_are_listed_by_when_they_were_written() {
    each_store(|_, store| {
        for id in ["b", "a", "c", "b"] {
            store.save_session(&session(id, "a", &[])).unwrap();
            // Times of files have a grain.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(store.list_session_ids().unwrap(), ["b", "c", "a"]);
    });
}

/// REQ-217.
#[test]
fn the_sessions_of_an_agent_are_found() {
    each_store(|_, store| {
        store.save_session(&session("s-1", "mine", &[])).unwrap();
        store.save_session(&session("s-2", "other", &[])).unwrap();
        let found = store.load_sessions_for_agent("mine").unwrap();
        assert_eq!(found.sessions.iter().map(|s| s.session_id.as_str()).collect::<Vec<_>>(), ["s-1"]);
        assert!(found.unreadable.is_empty());
    });
}

/// REQ-217.
#[test]
fn a_deleted_session_is_gone_and_one_that_is_not_there_is_not_found() {
    each_store(|_, store| {
        store.save_session(&session("s-1", "a", &["s-1.m.1"])).unwrap();
        store.delete_session("s-1").unwrap();
        let text = store.delete_session("s-1").unwrap_err().to_string();
        assert!(text.starts_with("there is no session \"s-1\" in "), "{text}");
        assert!(matches!(store.load_session("s-1"), Err(SessionError::NotFound { .. })));
        assert!(store.list_session_ids().unwrap().is_empty());
        store.save_session(&session("s-1", "a", &["s-1.m.2"])).unwrap();
        assert_eq!(store.load_session("s-1").unwrap().loops.len(), 1, "nothing of the old one comes back");
    });
}

/// REQ-216, REQ-217.
#[test]
fn an_id_that_is_no_file_name_is_refused_before_anything_is_touched() {
    let long = "x".repeat(MAX_ID_BYTES + 1);
    each_store(|_, store| {
        for id in ["", ".", "../x", "a/b", "a\\b", "/etc/passwd", "a\0b", "a\nb", "CON", "x.journal", &long] {
            let check = |result: Result<(), SessionError>| {
                assert!(matches!(result, Err(SessionError::InvalidId { .. })), "{id:?}: {result:?}");
            };
            check(store.load_session(id).map(drop));
            check(store.delete_session(id));
            check(store.save_session(&session(id, "a", &[])));
            check(store.write_session(id).map(drop));
            check(store.salvage_session(id).map(drop));
        }
        assert!(store.list_session_ids().unwrap().is_empty());
        for good in ["s-1", "a.b.1", "größe", "user@host"] {
            store.save_session(&session(good, "a", &[])).unwrap();
            store.load_session(good).unwrap();
        }
    });
}

/// D30, B-179.
#[test]
fn an_older_copy_of_a_session_erases_no_newer_loop() {
    each_store(|_, store| {
        store.save_session(&session("s-1", "a", &["s-1.m.1", "s-1.m.2"])).unwrap();
        store.save_session(&session("s-1", "a", &["s-1.m.1", "s-1.m.3"])).unwrap();
        let loaded = store.load_session("s-1").unwrap();
        let ids: Vec<&str> = loaded.loops.iter().map(|r| r.loop_id.as_str()).collect();
        assert_eq!(ids, ["s-1.m.1", "s-1.m.2", "s-1.m.3"]);
    });
}

/// B-180.
#[test]
fn the_second_writer_of_a_session_is_told_and_may_write_when_the_first_has_closed() {
    each_store(|_, store| {
        block_on(async {
            let mut first = agent(&[Play::Text(3)], ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut first, store.clone());
            perform(&first, &[Act::Prompt(3)]).await;

            let mut second = agent(&[Play::Text(3), Play::Text(3)], ToolExecutionStrategy::Parallel);
            let other = SessionRecorder::attach(&mut second, store.clone());
            let error = second.chat("Hi").await.unwrap_err().to_string();
            assert!(error.contains("another process or recorder is writing this session"), "{error}");
            assert!(matches!(other.ready("s-1").await, Err(SessionError::Locked { .. })));
            assert!(matches!(store.delete_session("s-1"), Err(SessionError::Locked { .. })));
            let loaded = store.load_session("s-1").unwrap();
            assert_eq!(loaded.loops.len(), 1, "reading is allowed");
            assert!(matches!(store.save_session(&loaded), Err(SessionError::Locked { .. })));

            recorder.close().await.unwrap();
            other.ready("s-1").await.unwrap();
            second.chat("Hi").await.unwrap();
            other.close().await.unwrap();
            assert_eq!(store.load_session("s-1").unwrap().loops.len(), 2);
        });
    });
}

/// B-181.
#[test]
fn what_a_later_version_added_survives_a_load_a_new_loop_and_a_save() {
    let plays = [Play::Calls(vec!["say"]), Play::Text(200), Play::Text(3)];
    each_store(|_, store| {
        block_on(async {
            let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            perform(&agent, &[Act::Prompt(150)]).await;
            recorder.close().await.unwrap();
            let mut value = serde_json::to_value(store.load_session("s-1").unwrap().into_session()).unwrap();
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
                let map = value
                    .pointer_mut(pointer)
                    .unwrap_or_else(|| panic!("{pointer}"))
                    .as_object_mut()
                    .unwrap();
                map.insert("from_2030".into(), json!({ "kept": pointer, "also": [strange] }));
            }
            let events = value["loops"][0]["events"].as_array_mut().unwrap();
            let sequence = events.len();
            events.push(
                json!({"sequence": sequence, "event": {"type": "Dreamt", "text": "long ".repeat(100)}}),
            );
            let session: Session = serde_json::from_value(value.clone()).unwrap();
            store.save_session(&session).unwrap();

            perform(&agent, &[Act::Prompt(3)]).await;
            recorder.close().await.unwrap();
            let saved = store.load_session("s-1").unwrap().into_session();
            let mut saved: Value = serde_json::to_value(saved).unwrap();
            assert_eq!(saved["loops"].as_array_mut().unwrap().pop().unwrap()["status"], "Completed");
            saved["last_active_at"] = value["last_active_at"].clone();
            saved["journal_records"] = value["journal_records"].clone();
            assert_eq!(saved, value);
        });
    });
}

/// B-188.
#[test]
fn a_line_separator_in_a_text_ends_no_record() {
    each_store(|_, store| {
        block_on(async {
            let mut agent = agent(&[Play::Text(0)], ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            let text = "a\u{2028}b\u{2029}c\u{85}d\re\nf\u{0}g";
            drop(agent.prompt(text).unwrap());
            agent.finish().await;
            for is_saved in [false, true] {
                if is_saved {
                    recorder.close().await.unwrap();
                }
                let loaded = store.load_session("s-1").unwrap();
                let Some(Message::User(user)) = loaded.loops[0].messages[0].as_llm() else { panic!() };
                assert_eq!(Message::User(user.clone()).text(), text);
            }
        });
    });
}

/// REQ-216.
#[test]
fn an_agent_goes_on_elsewhere_with_conversation_ids_and_counters() {
    let plays = [Play::Calls(vec!["say", "ask"]), Play::Text(9), Play::Text(9)];
    each_store(|_, store| {
        block_on(async {
            let mut first = agent(&plays, ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut first, store.clone());
            perform(&first, &[Act::Prompt(9), Act::Prompt(9)]).await;
            recorder.close().await.unwrap();

            let second = agent(&[Play::Text(3)], ToolExecutionStrategy::Parallel).with_session_id("other");
            let mut second = second.restore_unrecorded(&store.load_session("s-1").unwrap()).unwrap();
            assert_eq!(second.history(), first.history());
            let recorder = SessionRecorder::attach(&mut second, store.clone());
            perform(&second, &[Act::Prompt(5)]).await;
            let unsaved = store.load_session("s-1").unwrap();
            recorder.close().await.unwrap();
            let loaded = store.load_session("s-1").unwrap();
            assert_eq!(loaded.loops, unsaved.loops);
            assert_eq!(loaded.history().unwrap(), second.history());
            let base = loaded.loops[2].base.as_ref().unwrap();
            assert_eq!((base.keep, base.added.len()), (first.history().len(), 0), "nothing is written twice");
        });
    });
}

/// Two handles on one store, as two processes have them.
#[test]
fn what_one_handle_writes_another_reads_at_once() {
    for kind in scene::kinds() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (kind.open(dir.path()), kind.open(dir.path()));
        block_on(async {
            let mut agent = agent(&[Play::Text(3), Play::Text(4)], ToolExecutionStrategy::Parallel);
            let recorder = SessionRecorder::attach(&mut agent, one.clone());
            for n in 1..=2 {
                perform(&agent, &[Act::Prompt(3)]).await;
                assert_eq!(two.load_session("s-1").unwrap().loops.len(), n);
            }
            drop(recorder);
        });
        two.save_session(&session("s-2", "a", &[])).unwrap();
        assert_eq!(one.list_session_ids().unwrap().len(), 2);
    }
}

#[track_caller]
fn is_shared<S: BlockingSessionStore + ?Sized>(store: &S) -> bool {
    store.load_sessions_for_agent("nobody").unwrap().sessions.is_empty()
}

#[test]
fn a_store_is_passed_on_as_an_object() {
    each_store(|_, store| assert!(is_shared(&**store)));
}

/// The run emits a warning, once, before the store refuses a prompt because the session has reached the limit.
#[tokio::test]
async fn a_run_warns_before_its_session_is_full() {
    const LIMIT: u64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let json = JsonStore::open(dir.path().join("sessions")).unwrap().with_max_file_bytes(LIMIT);
    let mut stores: Vec<Arc<dyn BlockingSessionStore>> = vec![Arc::new(json)];
    #[cfg(feature = "sqlite")]
    stores.push(Arc::new(
        agent_session::SqliteStore::open(dir.path().join("sessions.db"))
            .unwrap()
            .with_max_session_bytes(LIMIT),
    ));
    for store in stores {
        let plays: Vec<Play> = (0..100).map(|_| Play::Text(500)).collect();
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let mut warned_after = None;
        let refused = loop {
            let completed = agent.messages().len() / 2;
            assert!(completed < 100, "the limit is never reached");
            let events = agent.prompt("more").unwrap().collect().await;
            for event in &events {
                if let AgentEvent::JournalWarning { warning, .. } = event {
                    let JournalWarning::NearlyFull { bytes, limit } = warning else { panic!("{warning:?}") };
                    assert_eq!(*limit, LIMIT);
                    assert!((LIMIT * 3 / 4..LIMIT).contains(bytes), "{bytes}");
                    assert_eq!(warned_after.replace(completed), None, "it warns once");
                }
            }
            if matches!(agent.finish().await, Some(RunEnd::Failed(_))) {
                break completed;
            }
        };
        let warned = warned_after.expect("there was a warning");
        assert!(warned < refused, "the warning was at {warned}, the refusal at {refused}");
        recorder.close().await.unwrap();
        let stored = store.load_session("s-1").unwrap();
        let recorded = stored.into_session().loops.into_iter().flat_map(|r| r.events);
        assert!(
            !recorded
                .filter_map(|e| e.known().cloned())
                .any(|e| matches!(e, AgentEvent::JournalWarning { .. }))
        );
    }
}

/// What a cache was written with is counted by its lifetime in the session, its journal and the list of sessions.
#[test]
fn long_cache_writes_are_in_sessions_and_in_their_summaries() {
    use agent_core::testing::{ScriptedProvider, ScriptedReply};
    let used = Usage::new(10, 1, 0, 5_000).with_long_cache_write(4_000);
    each_store(|_, store| {
        block_on(async {
            let replies = (0..2).map(|_| ScriptedReply::text("ok").using(used));
            let mut agent =
                agent(&[], ToolExecutionStrategy::Parallel).with_provider(ScriptedProvider::new(replies));
            let recorder = SessionRecorder::attach(&mut agent, store.clone());
            let check = |turns: u64| {
                let loaded = store.load_session("s-1").unwrap();
                assert_eq!(loaded.total_usage().cache_write_long, turns * 4_000);
                let found = store.find_sessions(&agent_session::SessionQuery::new()).unwrap();
                let usage = found.sessions[0].summary.usage;
                assert_eq!((usage.cache_write, usage.cache_write_long), (turns * 5_000, turns * 4_000));
            };
            for turns in 1..=2 {
                perform(&agent, &[Act::Prompt(3)]).await;
                check(turns);
            }
            recorder.close().await.unwrap();
            check(2);
        });
    });
}

/// A writer replaces the whole session, so no part of a longer one that it has written before is left.
#[test]
fn a_writer_replaces_a_session_by_a_shorter_one() {
    each_store(|kind, store| {
        let (mut writer, _) = store.write_session("s-1").unwrap();
        for loops in [&["s-1.m.1", "s-1.m.2", "s-1.m.3"][..], &["s-1.m.1"], &["s-1.m.1", "s-1.m.2"], &[]] {
            let session = session("s-1", "a", loops);
            writer.save(&session).unwrap();
            assert_eq!(*store.load_session("s-1").unwrap(), session, "{kind:?}, {} loops", loops.len());
        }
    });
}
