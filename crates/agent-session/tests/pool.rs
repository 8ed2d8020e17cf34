//! No file is opened, created, flushed, read, closed or removed on a thread of the runtime.
//!
//! The runtime of these tests has one thread, that of the test. A store that wraps a real one notes the calls that are made on
//! it, so that the result does not depend on the speed or the load of the machine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use agent_core::compat::SeedVerbs as _;
use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{Answer, BasicAgent, ModelConfig, RunEnd, SessionId, Timestamp, ToolResult};
use agent_session::{
    BlockingSessionStore, BlockingSessionWriter, FoundSessions, JsonStore, LoadedSession, OpenRuns,
    RestoreSession as _, Salvaged, Session, SessionError, SessionQuery, SessionReader, SessionRecord,
    SessionRecorder, UnfinishedSessions, WriteJob,
};
use serde_json::json;

/// Notes what is called on a thread of the runtime.
#[derive(Debug)]
struct Calls {
    runtime: ThreadId,
    on_runtime: Mutex<Vec<&'static str>>,
    elsewhere: Mutex<Vec<&'static str>>,
}

impl Calls {
    fn note(&self, name: &'static str) {
        let list = match std::thread::current().id() == self.runtime {
            true => &self.on_runtime,
            false => &self.elsewhere,
        };
        list.lock().unwrap().push(name);
    }
}

/// A store that notes its calls. The records of sessions whose id begins with `full` cannot be written.
#[derive(Debug)]
struct Noting {
    store: Arc<dyn BlockingSessionStore>,
    calls: Arc<Calls>,
}

impl Noting {
    fn around(store: Arc<dyn BlockingSessionStore>) -> (Arc<dyn BlockingSessionStore>, Arc<Calls>) {
        let calls = Arc::new(Calls {
            runtime: std::thread::current().id(),
            on_runtime: Mutex::default(),
            elsewhere: Mutex::default(),
        });
        (Arc::new(Self { store, calls: Arc::clone(&calls) }), calls)
    }
}

#[derive(Debug)]
struct NotingWriter {
    /// Closed first, so that the note is made where it is closed.
    writer: Option<Box<dyn BlockingSessionWriter>>,
    calls: Arc<Calls>,
    fails: Option<&'static str>,
}

impl NotingWriter {
    fn writer(&mut self) -> &mut dyn BlockingSessionWriter {
        &mut **self.writer.as_mut().unwrap()
    }
}

impl Drop for NotingWriter {
    fn drop(&mut self) {
        self.calls.note("close");
        self.writer = None;
    }
}

impl BlockingSessionWriter for NotingWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let error = |place: &str| SessionError::store("the session", "written", format!("{place} is full"));
        if self.fails == Some("append") && record.number > 1 {
            return Err(error("memory"));
        }
        let Some(job) = self.writer().append(record)? else { return Ok(None) };
        let (calls, fails) = (Arc::clone(&self.calls), self.fails == Some("job") && record.number > 1);
        Ok(Some(Box::new(move || {
            calls.note("write");
            if fails { Err(error("the disk")) } else { job() }
        })))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        self.calls.note("save");
        self.writer().save(session)
    }

    fn reader(&self) -> Option<SessionReader> {
        let (reader, calls) = (self.writer.as_ref().unwrap().reader()?, Arc::clone(&self.calls));
        Some(Arc::new(move || {
            calls.note("read");
            reader()
        }))
    }
}

impl BlockingSessionStore for Noting {
    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        self.calls.note("save_session");
        self.store.save_session(session)
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.calls.note("load_session");
        self.store.load_session(id)
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        self.calls.note("delete_session");
        self.store.delete_session(id)
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.calls.note("list_session_ids");
        self.store.list_session_ids()
    }

    fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        self.calls.note("list_unfinished");
        self.store.list_unfinished()
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        self.calls.note("find_sessions");
        self.store.find_sessions(query)
    }

    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError> {
        self.calls.note("open");
        let (writer, found) = self.store.write_session(id)?;
        let fails = ["append", "job"].into_iter().find(|fails| id == format!("full-{fails}"));
        let writer = NotingWriter { writer: Some(writer), calls: Arc::clone(&self.calls), fails };
        Ok((Box::new(writer), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        self.calls.note("salvage_session");
        self.store.salvage_session(id)
    }
}

fn agent(id: &str, replies: Vec<ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default())
        .with_session_id(id)
        .with_provider(ScriptedProvider::new(replies))
        .with_tool(ScriptedTool::saying("deploy", "deployed").asking("Deploy?"))
        .with_tool(ScriptedTool::new("render", |_, _| async { Ok(ToolResult::deferred("job-1")) }))
}

/// Everything that a recorder and a store are asked for.
async fn work(store: &Arc<dyn BlockingSessionStore>) {
    let recorder = SessionRecorder::with_store(Arc::clone(store));
    let mut first = agent("s-1", vec!["one".into(), "two".into(), "three".into()]);
    recorder.ready("s-1").await.unwrap();
    recorder.record(&mut first);
    first.chat("go").await.unwrap();
    recorder.save().await.unwrap();
    first.chat("go on").await.unwrap();
    recorder.compact_journal().await.unwrap();
    first.new_session();
    first.chat("in another session").await.unwrap();
    drop(first);

    let mut asking = agent("s-2", vec![ScriptedReply::call("c1", "deploy", json!({}))]);
    recorder.record(&mut asking);
    let end = asking.prompt("deploy").unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(_)), "{end:?}");
    let mut deferring = agent("s-3", vec![ScriptedReply::call("c1", "render", json!({})), "later".into()]);
    recorder.record(&mut deferring);
    deferring.chat("render").await.unwrap();
    recorder.close().await.unwrap();
    drop((asking, deferring));

    let found = OpenRuns::unfinished(store).await.unwrap();
    let question = found.runs[0].questions[0].id.clone();
    OpenRuns::answer(store, "s-2", question.clone(), Answer::Allow, Timestamp(1)).await.unwrap();
    OpenRuns::answer(store, "s-2", question, Answer::Allow, Timestamp(2)).await.unwrap_err();
    OpenRuns::complete(store, "s-3", "c1", ToolResult::text("42"), Timestamp(1)).await.unwrap();
    OpenRuns::complete(store, "s-3", "c1", ToolResult::text("42"), Timestamp(1)).await.unwrap_err();
    OpenRuns::deferred(store).await.unwrap();
    let (restored, second) =
        agent("x", vec!["out".into()]).restore_session(Arc::clone(store), "s-2").await.unwrap();
    let end = restored.resume().unwrap().end().await;
    assert!(matches!(end, RunEnd::Completed(_)), "{end:?}");
    drop(restored);
    second.close().await.unwrap();

    for id in ["full-append", "full-job"] {
        let mut full = agent(id, vec!["one".into(), "two".into()]);
        recorder.record(&mut full);
        // The end of the run is not recorded, so it is not told.
        full.chat("go").await.unwrap_err();
        full.chat("go on").await.unwrap_err();
        recorder.ready(id).await.unwrap();
    }
    recorder.close().await.unwrap();
    agent_session::SessionStore::find_sessions(store, &SessionQuery::new()).await.unwrap();
    agent_session::SessionStore::delete_session(store, "s-1").await.unwrap();
}

#[track_caller]
fn check(store: Arc<dyn BlockingSessionStore>) {
    let (store, calls) = Noting::around(store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work(&store));
    let on_runtime = calls.on_runtime.lock().unwrap().clone();
    assert!(on_runtime.is_empty(), "{on_runtime:?}");
    let elsewhere = calls.elsewhere.lock().unwrap();
    for name in ["open", "write", "save", "close", "load_session", "list_unfinished"] {
        assert!(elsewhere.contains(&name), "{name} was not tested: {elsewhere:?}");
    }
}

#[test]
fn a_recorder_uses_a_directory_on_the_blocking_pool_only() {
    let dir = tempfile::tempdir().unwrap();
    check(Arc::new(JsonStore::open(dir.path()).unwrap()));
}

#[cfg(feature = "sqlite")]
#[test]
fn a_recorder_uses_a_database_on_the_blocking_pool_only() {
    let dir = tempfile::tempdir().unwrap();
    check(Arc::new(agent_session::SqliteStore::open(dir.path().join("sessions.db")).unwrap()));
}
