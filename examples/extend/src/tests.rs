use looptree::StreamProvider as _;
use looptree::session::{OpenRuns as _, SessionError, SessionQuery};

use super::*;

#[tokio::test]
async fn the_route_of_a_custom_protocol_answers_and_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(provider_and_store(&folder.path().join("db")).await.unwrap(), "WHO ANSWERS?");
}

#[tokio::test]
async fn a_long_conversation_is_shortened_and_a_branch_is_selected() {
    compaction().await.unwrap();
    assert_eq!(evaluation().await.unwrap(), "branch 2");
}

#[tokio::test]
async fn an_unregistered_protocol_and_an_unknown_model_are_errors_that_say_what_to_do() {
    let agent = looptree::agent(provider::model("toy-1").unwrap());
    let text = agent.chat("Hello").await.unwrap_err().to_string();
    assert!(text.contains("custom:toy") && text.contains("register its provider"), "{text}");
    let error = registry().unwrap().check(&provider::model("other").unwrap()).unwrap_err();
    assert_eq!(error.kind(), looptree::ErrorKind::ModelNotFound);
}

#[tokio::test]
async fn a_session_has_one_writer_and_outlives_the_database_handle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = RedbStore::open(&path).unwrap();
    let mut agent = toy_agent().unwrap().with_session_id("s-1");
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    agent.chat("one").await.unwrap();

    // Before the first save the session is its head and its records.
    assert_eq!(store.load_session("s-1").await.unwrap().history().unwrap(), agent.history());
    let second = store.write_session("s-1").await.map(|_| ());
    assert!(matches!(second, Err(SessionError::Locked { .. })), "{second:?}");
    let deleted = store.delete_session("s-1").await;
    assert!(matches!(deleted, Err(SessionError::Locked { .. })), "{deleted:?}");
    recorder.close().await.unwrap();
    let expect = agent.history();
    drop((agent, recorder, store));

    let store = RedbStore::open(&path).unwrap();
    assert_eq!(store.list_session_ids().await.unwrap(), ["s-1"]);
    assert!(store.unfinished().await.unwrap().waiting().is_empty());
    assert_eq!(store.find_sessions(&SessionQuery::new().with_text("ONE")).await.unwrap().total, 1);
    let (agent, recorder) =
        toy_agent().unwrap().restore_session(store.clone(), "s-1").await.map_err(|e| e.to_string()).unwrap();
    assert_eq!(agent.history(), expect);
    agent.chat("two").await.unwrap();
    recorder.close().await.unwrap();
    drop((agent, recorder));
    let session = store.load_session("s-1").await.unwrap();
    assert_eq!(session.loops.len(), 2);

    store.save_session(&session).await.unwrap();
    store.delete_session("s-1").await.unwrap();
    let gone = store.load_session("s-1").await;
    assert!(matches!(gone, Err(SessionError::NotFound { .. })), "{gone:?}");
}
