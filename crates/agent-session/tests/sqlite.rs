//! What is only true of the database.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use agent_core::{Timestamp, ToolExecutionStrategy};
use agent_session::{
    BlockingSessionStore, LoopStatus, Session, SessionError, SessionQuery, SessionRecorder, SqliteStore,
};
use rusqlite::Connection;
use scene::{Act, Play, agent, block_on, perform};

/// A session never outgrows the limit for reading: the next prompt is refused, and what was acknowledged loads.
#[tokio::test]
async fn a_session_that_becomes_too_large_refuses_the_next_prompt_and_still_loads() {
    const LIMIT: u64 = 40_000;
    for saves in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.db");
        let store = SqliteStore::open(&path).unwrap().with_max_session_bytes(LIMIT);
        let plays: Vec<Play> = (0..100).map(|_| Play::Text(500)).collect();
        let mut agent = agent(&plays, ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        let mut completed = 0;
        let error = loop {
            match agent.chat("more").await {
                Ok(_) => completed += 1,
                Err(error) => break error.to_string(),
            }
            if saves && completed % 3 == 0 {
                recorder.save().await.unwrap();
            }
            assert!(completed < 100, "the limit is never reached");
        };
        assert!(error.contains("is full"), "{error}");
        assert!(completed > 3, "{completed}");
        let loaded = store.load_session("s-1").unwrap();
        assert_eq!(loaded.loops.iter().filter(|r| r.status == LoopStatus::Completed).count(), completed);
        recorder.close().await.unwrap();
        let again = store.load_session("s-1").unwrap();
        assert_eq!(again.history().unwrap(), loaded.history().unwrap());

        // A save that nobody could read is refused, and the stored session stays.
        let mut large = again.clone().into_session();
        let message = agent_core::AgentMessage::user("x".repeat(LIMIT as usize));
        large.loops[0].messages.push(message.into());
        large.loops[0].events.clear();
        large.loops.push(large.loops[0].clone());
        large.loops.last_mut().unwrap().loop_id = "s-1.other.1".into();
        assert!(matches!(store.save_session(&large), Err(SessionError::Full { .. })));
        assert_eq!(*store.load_session("s-1").unwrap(), *again);
    }
}

/// A transaction that fails ends the runs whose records were in it, and no others.
#[test]
fn a_failed_transaction_fails_the_sessions_that_were_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    block_on(async {
        let recorder = SessionRecorder::with_store(store.clone());
        let mut bad =
            agent(&[Play::Text(3), Play::Text(3)], ToolExecutionStrategy::Parallel).with_session_id("bad");
        let mut good =
            agent(&[Play::Text(3), Play::Text(3)], ToolExecutionStrategy::Parallel).with_session_id("good");
        recorder.record(&mut bad);
        recorder.record(&mut good);
        perform(&bad, &[Act::Prompt(3)]).await;
        perform(&good, &[Act::Prompt(3)]).await;
        let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON records
                      WHEN new.session = (SELECT session FROM sessions WHERE id = 'bad')
                      BEGIN SELECT raise(ABORT, 'refused'); END";
        Connection::open(&path).unwrap().execute_batch(refuse).unwrap();
        let error = bad.chat("more").await.unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
        good.chat("more").await.unwrap();
        Connection::open(&path).unwrap().execute_batch("DROP TRIGGER refuse").unwrap();
        assert_eq!(store.load_session("good").unwrap().loops.len(), 2);
        assert_eq!(store.load_session("bad").unwrap().loops.len(), 1);
        recorder.close().await.unwrap();
    });
}

/// A reader works while a transaction of a writer is open.
#[test]
fn reads_do_not_wait_for_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    store.save_session(&Session::new("s-1".into(), "a".into(), Timestamp(1))).unwrap();
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE; DELETE FROM sessions").unwrap();
    let saving = std::thread::spawn({
        let store = store.clone();
        move || store.save_session(&Session::new("s-2".into(), "a".into(), Timestamp(1)))
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(store.load_session("s-1").unwrap().agent_id.as_str(), "a");
    assert_eq!(store.find_sessions(&SessionQuery::new()).unwrap().total, 1);
    assert!(!saving.is_finished());
    writer.execute_batch("ROLLBACK").unwrap();
    saving.join().unwrap().unwrap();
    assert_eq!(store.list_session_ids().unwrap().len(), 2);
}

/// The words of a session are indexed once, however often it is saved.
#[test]
fn a_message_is_indexed_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let count = |table: &str| -> i64 {
        let connection = Connection::open(&path).unwrap();
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    block_on(async {
        let mut agent = agent(&[Play::Text(3), Play::Text(9)], ToolExecutionStrategy::Parallel);
        let recorder = SessionRecorder::attach(&mut agent, store.clone());
        for n in 1..=2 {
            perform(&agent, &[Act::Prompt(3)]).await;
            assert_eq!(count("said"), 2 * n);
            recorder.save().await.unwrap();
            assert_eq!((count("said"), count("records")), (2 * n, 0));
        }
        recorder.close().await.unwrap();
    });
    let loaded = store.load_session("s-1").unwrap();
    store.save_session(&loaded).unwrap();
    assert_eq!(count("said"), 4);
    store.delete_session("s-1").unwrap();
    for table in ["sessions", "ids", "lines", "records", "said", "said_words_docsize"] {
        assert_eq!(count(table), 0, "{table}");
    }
}
