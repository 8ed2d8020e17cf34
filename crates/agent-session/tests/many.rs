//! Many agents that share one recorder: none waits for the session of another, and none leaves its session open.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod scene;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ModelConfig, RunEnd, RunFailure};
use agent_session::{
    BlockingSessionStore, BlockingSessionWriter, Flushing, FoundSessions, JsonStore, LoadedSession,
    LoopStatus, RestoreSession, Salvaged, Session, SessionError, SessionQuery, SessionReader, SessionRecord,
    SessionRecorder, WriteJob,
};
use scene::Delegating;
use serde_json::json;

fn agent(id: &str, replies: Vec<ScriptedReply>) -> BasicAgent {
    BasicAgent::new(ModelConfig::default()).with_session_id(id).with_provider(ScriptedProvider::new(replies))
}

fn texts(count: usize) -> Vec<ScriptedReply> {
    (0..count).map(|n| ScriptedReply::text(format!("reply {n}"))).collect()
}

/// Waits until a condition holds, at most ten seconds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what}");
}

/// The open descriptors of this process that refer to files in a folder.
#[cfg(target_os = "linux")]
fn descriptors(folder: &Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(folder))).count()
}

#[cfg(not(target_os = "linux"))]
fn descriptors(_: &Path) -> usize {
    0
}

fn is_locked(folder: &Path, id: &str) -> bool {
    folder.join(format!("{id}.lock")).exists()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_that_follow_each_other_leave_no_descriptor_open() {
    const AGENTS: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let recorder = SessionRecorder::with_store(store.clone());
    let mut most = 0;
    for n in 0..AGENTS {
        let mut agent = agent(&format!("s-{n}"), texts(1));
        recorder.record(&mut agent);
        agent.chat("go").await.unwrap();
        most = most.max(descriptors(dir.path()));
    }
    assert!(most <= 100, "{most} descriptors");
    until("sessions are still open", || recorder.sessions().is_empty() && descriptors(dir.path()) == 0).await;
    for n in 0..AGENTS {
        let id = format!("s-{n}");
        until("a session is still locked", || !is_locked(dir.path(), &id)).await;
        let session = store.load_session(&id).unwrap();
        assert_eq!((session.loops[0].status, session.loops[0].messages.len()), (LoopStatus::Completed, 2));
        assert!(store.path_of(&id).unwrap().exists(), "it was saved");
    }
}

/// One descriptor for each open session: its journal is a second name of the file of its lock.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_open_session_has_one_descriptor() {
    const AGENTS: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let recorder =
        SessionRecorder::with_store(JsonStore::open(dir.path()).unwrap()).with_flushing(Flushing::Never);
    let mut agents = Vec::new();
    for n in 0..AGENTS {
        let mut agent = agent(&format!("s-{n}"), texts(2));
        recorder.record(&mut agent);
        agent.chat("go").await.unwrap();
        agents.push(agent);
    }
    assert_eq!(descriptors(dir.path()), AGENTS);
    recorder.save().await.unwrap();
    assert_eq!(descriptors(dir.path()), AGENTS);
    for agent in &agents {
        agent.chat("again").await.unwrap();
    }
    assert_eq!(descriptors(dir.path()), AGENTS);
    recorder.close().await.unwrap();
    assert_eq!(descriptors(dir.path()), 0);
}

#[tokio::test]
async fn a_dropped_agent_releases_its_session_and_others_can_open_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let recorder = SessionRecorder::with_store(store.clone());
    let mut first = agent("s-1", texts(1));
    recorder.record(&mut first);
    first.chat("one").await.unwrap();
    let other = SessionRecorder::with_store(store.clone());
    assert!(matches!(other.ready("s-1").await, Err(SessionError::Locked { .. })));
    drop(first);
    // Restored by another recorder, written, dropped; then by the first one.
    for (n, recorder) in [&other, &recorder].into_iter().enumerate() {
        let session = LoadedSession::new(recorder.open("s-1").await.unwrap());
        let mut next = agent("s-1", texts(1)).restore_unrecorded(&session).unwrap();
        recorder.record(&mut next);
        next.chat("more").await.unwrap();
        assert_eq!(recorder.session("s-1").unwrap().loops.len(), n + 2);
    }
    recorder.ready("s-1").await.unwrap();
    assert!(recorder.sessions().is_empty() && other.sessions().is_empty());
    assert_eq!(store.load_session("s-1").unwrap().loops.len(), 3);
}

/// A restored agent that writes nothing keeps its session until it is dropped.
#[tokio::test]
async fn a_restored_agent_owns_its_session_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut first = agent("s-1", texts(1));
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    first.chat("one").await.unwrap();
    recorder.close().await.unwrap();
    let (second, recorder) = agent("s-2", texts(1)).restore_session(store.clone(), "s-1").await.unwrap();
    assert!(is_locked(dir.path(), "s-1"));
    drop(second);
    until("the session is still locked", || !is_locked(dir.path(), "s-1")).await;
    assert!(recorder.sessions().is_empty());
}

/// Without a runtime, the session is saved and closed in place.
#[test]
fn an_agent_that_is_dropped_outside_of_the_runtime_is_saved_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let recorder = SessionRecorder::with_store(store.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut agent = agent("s-1", texts(1));
    recorder.record(&mut agent);
    runtime.block_on(agent.chat("go")).unwrap();
    drop(agent);
    assert!(!is_locked(dir.path(), "s-1") && store.path_of("s-1").unwrap().exists());
    assert!(recorder.sessions().is_empty());
}

/// A directory whose saves of session `slow` wait, and in which some sessions cannot be opened.
#[derive(Debug, Clone)]
struct Odd {
    store: JsonStore,
    saves: Arc<Mutex<Receiver<()>>>,
    begun: Sender<()>,
}

#[derive(Debug)]
struct OddWriter {
    writer: Box<dyn BlockingSessionWriter>,
    is_slow: bool,
    store: Odd,
}

impl Odd {
    fn new(dir: &Path) -> (Self, Sender<()>, Receiver<()>) {
        let ((end, saves), (begun, begins)) = (channel(), channel());
        let store = JsonStore::open(dir).unwrap();
        (Self { store, saves: Arc::new(Mutex::new(saves)), begun }, end, begins)
    }

    fn shared(&self) -> Arc<dyn BlockingSessionStore> {
        Arc::new(self.clone())
    }
}

impl BlockingSessionWriter for OddWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        self.writer.append(record)
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        if self.is_slow {
            // The test can be over already.
            let _ = self.store.begun.send(());
            let _ = self.store.saves.lock().unwrap().recv();
        }
        self.writer.save(session)
    }

    fn reader(&self) -> Option<SessionReader> {
        self.writer.reader()
    }
}

impl BlockingSessionStore for Odd {
    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        self.store.save_session(session)
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.store.load_session(id)
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        self.store.delete_session(id)
    }

    fn list_session_ids(&self) -> Result<Vec<agent_core::SessionId>, SessionError> {
        self.store.list_session_ids()
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        BlockingSessionStore::find_sessions(&self.store, query)
    }

    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError> {
        if id.starts_with("child-") || id.starts_with("full") {
            let source = std::io::Error::other("too many open files");
            let path = self.store.dir().join(format!("{id}.lock"));
            return Err(SessionError::Io { path, action: "opened", source });
        }
        let (writer, found) = BlockingSessionStore::write_session(&self.store, id)?;
        Ok((Box::new(OddWriter { writer, is_slow: id == "slow", store: self.clone() }), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        BlockingSessionStore::salvage_session(&self.store, id)
    }
}

#[tokio::test]
async fn while_a_session_is_saved_only_its_own_records_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (store, end, begins) = Odd::new(dir.path());
    let recorder = SessionRecorder::with_store(store.shared());
    let (mut slow, mut other) = (agent("slow", texts(2)), agent("other", texts(3)));
    recorder.record(&mut slow);
    recorder.record(&mut other);
    slow.chat("one").await.unwrap();
    other.chat("one").await.unwrap();

    let saving = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.save().await }
    });
    until("the save did not begin", || begins.try_recv().is_ok()).await;
    let waiting = tokio::spawn(async move {
        slow.chat("two").await.unwrap();
        slow
    });
    other.chat("two").await.unwrap();
    let mut new = agent("new", texts(1));
    recorder.record(&mut new);
    new.chat("one").await.unwrap();
    assert_eq!(recorder.session("slow").unwrap().loops.len(), 1, "it can be read meanwhile");
    assert!(!waiting.is_finished() && !saving.is_finished());
    end.send(()).unwrap();
    saving.await.unwrap().unwrap();
    let slow = waiting.await.unwrap();
    assert_eq!(store.store.load_session("slow").unwrap().history().unwrap(), slow.history());
    end.send(()).unwrap();
}

#[tokio::test]
async fn a_save_that_nobody_waits_for_is_completed_and_the_agent_continues() {
    let dir = tempfile::tempdir().unwrap();
    let (store, end, begins) = Odd::new(dir.path());
    let mut slow = agent("slow", texts(2));
    let recorder = SessionRecorder::attach(&mut slow, store.shared());
    slow.chat("one").await.unwrap();
    let saving = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.save().await }
    });
    until("the save did not begin", || begins.try_recv().is_ok()).await;
    saving.abort();
    assert!(saving.await.unwrap_err().is_cancelled());
    end.send(()).unwrap();
    slow.chat("two").await.unwrap();
    assert_eq!(store.store.load_session("slow").unwrap().history().unwrap(), slow.history());
    end.send(()).unwrap();
}

/// An agent that is dropped while its session is being saved releases the session afterwards.
#[tokio::test]
async fn an_agent_that_is_dropped_during_a_save_releases_its_session_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, end, begins) = Odd::new(dir.path());
    let mut slow = agent("slow", texts(1));
    let recorder = SessionRecorder::attach(&mut slow, store.shared());
    slow.chat("one").await.unwrap();
    let saving = tokio::spawn({
        let recorder = recorder.clone();
        async move { recorder.save().await }
    });
    until("the save did not begin", || begins.try_recv().is_ok()).await;
    drop(slow);
    assert!(is_locked(dir.path(), "slow"));
    end.send(()).unwrap();
    saving.await.unwrap().unwrap();
    until("the session is still locked", || !is_locked(dir.path(), "slow")).await;
    assert!(recorder.sessions().is_empty());
}

fn calls(count: usize) -> Vec<ScriptedReply> {
    let calls = (0..count).map(|n| ScriptedReply::call(&format!("c{n}"), "delegate", json!({ "n": n })));
    calls.chain([ScriptedReply::text("done")]).collect()
}

fn children(store: &JsonStore) -> BTreeSet<String> {
    let ids = store.list_session_ids().unwrap();
    ids.iter().map(ToString::to_string).filter(|id| id.starts_with("child-")).collect()
}

#[tokio::test]
async fn the_session_of_a_sub_agent_is_released_when_its_call_has_ended() {
    const CALLS: usize = 60;
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let recorder = SessionRecorder::with_store(store.clone());
    let mut parent = agent("s-1", calls(CALLS))
        .with_limits(None)
        .with_tool(Delegating(ScriptedProvider::new(texts(CALLS)), None));
    recorder.record(&mut parent);
    let Ok(_) = parent.chat("go").await else { panic!() };
    until("sub-agents are still open", || recorder.sessions().len() == 1).await;
    until("descriptors are still open", || descriptors(dir.path()) <= 2).await;
    assert_eq!(children(&store).len(), CALLS);
    for id in children(&store) {
        until("a sub-agent is still locked", || !is_locked(dir.path(), &id)).await;
        let child = store.load_session(&id).unwrap();
        assert_eq!(child.loops[0].status, LoopStatus::Completed);
        let spawn = child.parent_spawn_ref.as_ref().unwrap();
        assert_eq!((spawn.parent_session_id.as_str(), spawn.tool_name.as_str()), ("s-1", "delegate"));
        assert!(!spawn.tool_call_id.as_str().is_empty());
    }
}

#[tokio::test]
async fn a_sub_agent_that_waits_for_an_answer_stays_open_with_its_caller() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let recorder = SessionRecorder::with_store(store.clone());
    let child =
        ScriptedProvider::new([ScriptedReply::call("d1", "deploy", json!({})), ScriptedReply::text("out")]);
    let deploy = ScriptedTool::saying("deploy", "deployed").asking("Deploy?");
    let mut parent = agent("s-1", calls(1)).with_tool(Delegating(child, Some(deploy)));
    recorder.record(&mut parent);
    let end = parent.prompt("go").unwrap().end().await;
    assert!(matches!(end, RunEnd::Suspended(_)), "{end:?}");
    assert_eq!(recorder.sessions().len(), 2);
    drop(parent);
    until("sessions are still open", || recorder.sessions().is_empty()).await;
    let child = children(&store).into_iter().next().unwrap();
    recorder.ready(&child).await.unwrap();
    assert_eq!(store.load_session(&child).unwrap().loops[0].status, LoopStatus::Suspended);
}

#[tokio::test]
async fn a_sub_agent_that_cannot_be_recorded_ends_the_run_of_its_caller_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ..) = Odd::new(dir.path());
    let recorder = SessionRecorder::with_store(store.shared());
    let mut parent = agent("s-1", calls(1)).with_tool(Delegating(ScriptedProvider::new(texts(1)), None));
    let (mut full, mut other) = (agent("full", texts(1)), agent("other", texts(1)));
    for agent in [&mut parent, &mut full, &mut other] {
        recorder.record(agent);
    }
    for (agent, file) in [(&parent, "child-"), (&full, "full.lock")] {
        drop(agent.prompt("go").unwrap());
        let Some(RunEnd::Failed(RunFailure::Interrupted { reason })) = agent.finish().await else { panic!() };
        assert!(reason.contains(file) && reason.contains("too many open files"), "{reason}");
    }
    assert_eq!(other.chat("go").await.unwrap(), "reply 0");
    assert_eq!(recorder.sessions().len(), 2, "nothing is left of the sessions that could not be opened");
}
