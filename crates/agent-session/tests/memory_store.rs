//! A store that is written outside of the crate, with its public API only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{Answer, BasicAgent, ModelConfig, SessionId, Timestamp};
use agent_session::{
    LoadedSession, LoopStatus, OpenRuns, PendingWrite, RestoreSession, Session, SessionError, SessionQuery,
    SessionRecord, SessionRecorder, SessionStore, SessionWriter, TimeTravel,
};
use async_trait::async_trait;
use serde_json::json;

/// What is stored of a session: its last save, or its head, and the records since then.
#[derive(Debug, Clone)]
struct Stored {
    saved: Session,
    records: Vec<Vec<u8>>,
}

impl Stored {
    fn session(&self) -> Result<Session, SessionError> {
        self.saved.clone().with_records(&self.records)
    }
}

#[derive(Debug, Default)]
struct State {
    sessions: BTreeMap<String, Stored>,
    written: BTreeSet<String>,
}

#[derive(Debug, Default, Clone)]
struct MemoryStore(Arc<Mutex<State>>);

impl MemoryStore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The store as a process finds it after the one before was killed: without its writers and locks.
    fn after_a_kill(&self) -> Self {
        let sessions = self.state().sessions.clone();
        Self(Arc::new(Mutex::new(State { sessions, written: BTreeSet::new() })))
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let mut state = self.state();
        let id = session.session_id.to_string();
        if state.written.contains(&id) {
            return Err(SessionError::Locked { lock: id });
        }
        let saved = match state.sessions.get(&id) {
            Some(stored) => session.clone().merged_into(stored.session()?),
            None => session.clone(),
        };
        state.sessions.insert(id, Stored { saved, records: Vec::new() });
        Ok(())
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        let state = self.state();
        let missing = || SessionError::NotFound { id: id.to_owned(), store: self.describe() };
        let loaded = LoadedSession::new(state.sessions.get(id).ok_or_else(missing)?.session()?);
        Ok(if state.written.contains(id) { loaded } else { loaded.interrupted() })
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        let missing = || SessionError::NotFound { id: id.to_owned(), store: self.describe() };
        self.state().sessions.remove(id).map(drop).ok_or_else(missing)
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        Ok(self.state().sessions.keys().map(|id| SessionId::from(id.as_str())).collect())
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        let mut state = self.state();
        let found = state.sessions.get(id).map(Stored::session).transpose()?;
        if !state.written.insert(id.to_owned()) {
            return Err(SessionError::Locked { lock: id.to_owned() });
        }
        if let Some(session) = &found {
            state.sessions.insert(id.to_owned(), Stored { saved: session.clone(), records: Vec::new() });
        }
        Ok((Box::new(MemoryWriter { store: self.clone(), id: id.to_owned() }), found))
    }
}

#[derive(Debug)]
struct MemoryWriter {
    store: MemoryStore,
    id: String,
}

#[async_trait]
impl SessionWriter for MemoryWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        let mut state = self.store.state();
        if !state.sessions.contains_key(&self.id) {
            let stored = Stored { saved: record.head()?, records: Vec::new() };
            state.sessions.insert(self.id.clone(), stored);
        }
        state.sessions.get_mut(&self.id).unwrap().records.push(record.line.to_vec());
        // A store behind a network would return when its server has acknowledged the record.
        Ok(Some(Box::pin(async {
            tokio::task::yield_now().await;
            Ok(())
        })))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        tokio::task::yield_now().await;
        let stored = Stored { saved: session, records: Vec::new() };
        self.store.state().sessions.insert(self.id.clone(), stored);
        Ok(())
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.store.state().written.remove(&self.id);
    }
}

fn agent(replies: Vec<ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_provider(ScriptedProvider::new(replies))
        .with_session_id("s-1")
}

#[tokio::test]
async fn a_run_is_recorded_found_and_restored() {
    let store = MemoryStore::default();
    let mut first = agent(vec![ScriptedReply::text("Hello."), ScriptedReply::text("Again.")]);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    first.chat("Hi").await.unwrap();
    // Before the first save the session is a head and its records.
    assert!(!store.state().sessions["s-1"].records.is_empty());
    assert_eq!(store.load_session("s-1").await.unwrap().history().unwrap(), first.history());
    let refused = SessionRecorder::with_store(store.clone()).ready("s-1").await;
    assert!(matches!(refused, Err(SessionError::Locked { .. })), "{refused:?}");
    first.chat("And?").await.unwrap();
    assert_eq!(recorder.close().await.unwrap(), ["s-1"]);
    assert!(store.state().sessions["s-1"].records.is_empty());

    let found = store.find_sessions(&SessionQuery::new().with_text("again")).await.unwrap();
    assert_eq!((found.total, found.sessions[0].hits[0].snippet.as_str()), (1, "Again."));
    assert_eq!(store.find_sessions(&SessionQuery::new().with_text("absent")).await.unwrap().total, 0);

    let second = agent(vec![ScriptedReply::text("Third.")]);
    let (second, recorder) = second.restore_session(store.clone(), "s-1").await.unwrap();
    assert_eq!(second.history(), first.history());
    second.chat("Once more").await.unwrap();
    recorder.close().await.unwrap();
    let session = store.load_session("s-1").await.unwrap();
    assert_eq!((session.loops.len(), session.history().unwrap()), (3, second.history()));

    let fork = second.fork(&store, &session, &session.points()[1]).await.unwrap();
    assert_eq!(store.list_session_ids().await.unwrap().len(), 2);
    store.delete_session(fork.session_id.as_str()).await.unwrap();
    let gone = store.load_session(fork.session_id.as_str()).await;
    assert!(matches!(gone, Err(SessionError::NotFound { .. })), "{gone:?}");
}

/// A call that must run once runs once, however often the process is killed, by the documented calls alone.
#[tokio::test]
async fn a_question_is_answered_and_the_call_runs_once_across_kills() {
    let store = MemoryStore::default();
    let charge =
        ScriptedTool::saying("charge", "charged").asking("Charge?").with_effects(agent_core::Effects::Once);
    let mut first = agent(vec![ScriptedReply::call("c1", "charge", json!({}))]).with_tool(charge.clone());
    let _recorder = SessionRecorder::attach(&mut first, store.clone());
    first.prompt("Charge it.").unwrap().collect().await;

    let store = store.after_a_kill();
    let waiting = store.unfinished().await.unwrap();
    let question = waiting.waiting()[0].questions[0].id.clone();
    store.answer("s-1", question, Answer::Allow, Timestamp(5)).await.unwrap();

    // Without the tool the run is not continued.
    let without = agent(Vec::new()).restore_session(store.clone(), "s-1").await;
    let Err(SessionError::Missing { missing, .. }) = without else { panic!("{without:?}") };
    assert_eq!(missing, ["the tool charge"]);

    // Killed right after the call: its record is in the store, so that it is not repeated.
    let second = agent(vec![ScriptedReply::new().and_hang()]).with_tool(charge.clone());
    let (second, _recorder) = second.restore_session(store.clone(), "s-1").await.unwrap();
    let mut events = second.resume().unwrap();
    while charge.calls().is_empty() {
        events.recv().await.unwrap();
    }
    while !matches!(events.recv().await.unwrap(), agent_core::AgentEvent::ToolExecutionEnd(_)) {}
    // While that process lives, nobody else continues the run.
    let live = agent(Vec::new()).with_tool(charge.clone()).restore_session(store.clone(), "s-1").await;
    assert!(matches!(live, Err(SessionError::Locked { .. })), "{live:?}");

    let store = store.after_a_kill();
    let third = agent(vec![ScriptedReply::text("It is charged.")]).with_tool(charge.clone());
    let (third, recorder) = third.restore_session(store.clone(), "s-1").await.unwrap();
    third.resume().unwrap().collect().await;
    recorder.close().await.unwrap();
    assert_eq!(charge.calls().len(), 1, "charged once");
    let session = store.load_session("s-1").await.unwrap();
    assert_eq!(session.loops[0].status, LoopStatus::Completed);
    assert_eq!(session.history().unwrap(), third.history());
}

#[tokio::test]
async fn a_recorder_that_is_dropped_leaves_the_records() {
    let store = MemoryStore::default();
    let mut first = agent(vec![ScriptedReply::text("Hello.")]);
    drop((SessionRecorder::attach(&mut first, store.clone()), first.chat("Hi").await.unwrap()));
    let expect = first.history();
    drop(first);
    let loaded = store.load_session("s-1").await.unwrap();
    assert_eq!((loaded.history().unwrap(), loaded.loops[0].status), (expect, LoopStatus::Completed));
    assert!(SessionRecorder::with_store(store).ready("s-1").await.is_ok(), "the lock has ended");
}
