//! What a long run releases after a compaction is read back from the store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use agent_core::compat::SeedSetters as _;
use agent_core::run::ReadMessagesError;
use agent_core::testing::{ManualEnvironment, ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{
    AgentEvent, BasicAgent, ContextConfig, MessageRef, ModelConfig, RunEnd, SessionId, ToolResult,
};
use agent_session::{
    BlockingSessionStore, BlockingSessionWriter, FoundSessions, JsonStore, LoadedSession, RestoreSession,
    Salvaged, Session, SessionError, SessionQuery, SessionRecord, SessionRecorder, SessionStore, WriteJob,
};
use serde_json::json;

const TURNS: usize = 12;

/// An agent of `TURNS` turns in each run, whose conversation has room for some of the results.
fn agent(runs: Range<usize>) -> BasicAgent {
    let run = |run: usize| {
        let call = move |n: usize| ScriptedReply::call(&format!("call-{run}-{n}"), "read", json!({ "n": n }));
        (1..TURNS).map(call).chain([ScriptedReply::text("done")])
    };
    let tool = ScriptedTool::new("read", |args, _| async move {
        Ok(ToolResult::text(format!("result {}\n{}", args["n"], "some words of it\n".repeat(1_000))))
    });
    let compaction = ContextConfig::default()
        .with_max_context_tokens(16_000)
        .with_system_prompt_tokens(0)
        .with_keep_recent(4);
    BasicAgent::new(ModelConfig::default())
        .with_environment(Arc::new(ManualEnvironment::at(1_800_000_000_000)))
        .with_provider(ScriptedProvider::new(runs.flat_map(run)))
        .with_session_id("s-1")
        .with_agent_id("agent")
        .with_tool(tool)
        .with_context_config(compaction)
        .with_execution_limits(None)
}

/// The events of a run that are recorded.
async fn run(agent: &BasicAgent) -> Vec<AgentEvent> {
    let events = agent.prompt("go").unwrap().collect().await;
    assert!(events.iter().filter(|e| matches!(e, AgentEvent::CompactionEnded(_))).count() > 1);
    events.into_iter().filter(|event| !event.is_live()).collect()
}

fn ended(events: &[AgentEvent]) -> Vec<MessageRef> {
    let ended = events.iter().filter_map(|event| match event {
        AgentEvent::MessageEnd { message, superseded: false, .. } => Some(message.clone()),
        _ => None,
    });
    ended.collect()
}

/// The session has each event of the runs, and each message.
fn check(session: &Session, runs: &[Vec<AgentEvent>], agent: &BasicAgent) {
    assert_eq!(session.loops.len(), runs.len());
    for (record, events) in session.loops.iter().zip(runs) {
        let messages = ended(events);
        assert_eq!(record.messages, messages);
        let sequences: Vec<u64> = record.events.iter().map(|e| e.sequence).collect();
        assert_eq!(sequences, (0..events.len() as u64).collect::<Vec<_>>());
        for (recorded, said) in record.events.iter().zip(events) {
            match (recorded.known().unwrap(), said) {
                (AgentEvent::AgentEnd(recorded), AgentEvent::AgentEnd(said)) => {
                    assert_eq!(recorded.messages.all(), Some(&*messages));
                    assert_eq!(recorded.ended, said.ended);
                }
                (recorded, said) => assert_eq!(recorded, said),
            }
        }
    }
    assert_eq!(session.history().unwrap(), agent.history());
}

async fn round_trip(store: impl SessionStore + Clone + 'static) {
    let mut agent = agent(0..2);
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let mut runs = Vec::new();
    for _ in 0..2 {
        let events = run(&agent).await;
        let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
        assert_eq!(end.messages.len(), 2 * TURNS);
        assert!(end.messages.released() > 0 && end.messages.all().is_none());
        assert_eq!(end.messages.read().await.unwrap(), ended(&events));
        runs.push(events);
        // As after a crash: the store has the records and no save.
        check(&store.load_session("s-1").await.unwrap(), &runs, &agent);
        check(&recorder.session("s-1").unwrap(), &runs, &agent);
        assert_eq!(recorder.sessions().len(), 1);
    }
    recorder.save().await.unwrap();
    check(&recorder.read_session("s-1").unwrap().unwrap(), &runs, &agent);
    recorder.close().await.unwrap();
    let loaded = store.load_session("s-1").await.unwrap();
    check(&loaded, &runs, &agent);
    // The reader works after the recorder was closed.
    let Some(AgentEvent::AgentEnd(end)) = runs[0].last() else { panic!() };
    assert_eq!(end.messages.read().await.unwrap(), ended(&runs[0]));
    store.delete_session("s-1").await.unwrap();
    assert!(matches!(end.messages.read().await, Err(ReadMessagesError::Failed { .. })));
}

#[tokio::test]
async fn a_released_session_is_read_back_from_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    round_trip(JsonStore::open(dir.path()).unwrap()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_released_session_is_read_back_from_a_database() {
    let dir = tempfile::tempdir().unwrap();
    round_trip(agent_session::SqliteStore::open(dir.path().join("sessions.db")).unwrap()).await;
}

/// The end of a run whose messages were released, as JSON: the messages in memory, and the number of the others.
#[tokio::test]
async fn without_its_store_a_released_message_is_an_error_and_never_absent() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = agent(0..1);
    let recorder = SessionRecorder::attach(&mut agent, JsonStore::open(dir.path()).unwrap());
    let events = run(&agent).await;
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    let json = serde_json::to_value(AgentEvent::AgentEnd(end.clone())).unwrap();
    let released = json["released_messages"].as_u64().unwrap();
    assert_eq!(json["messages"].as_array().unwrap().len() as u64 + released, 2 * TURNS as u64);
    let AgentEvent::AgentEnd(read) = serde_json::from_value(json).unwrap() else { panic!() };
    assert_eq!(read.messages, end.messages);
    let error = read.messages.read().await.unwrap_err();
    assert!(matches!(error, ReadMessagesError::NoStore { total: 24, .. }), "{error}");
    let Some(RunEnd::Completed(reply)) = agent.finish().await else { panic!() };
    assert_eq!(reply.text(), "done", "the last reply is in memory");
    drop(recorder);
}

/// A recorder in memory, and an agent without one, keep every message.
#[tokio::test]
async fn without_a_store_nothing_is_released() {
    let agent = agent(0..1);
    let recorder = SessionRecorder::new();
    let events = run(&agent).await;
    events.iter().for_each(|event| recorder.on_event(event));
    let Some(AgentEvent::AgentEnd(end)) = events.last() else { panic!() };
    assert_eq!(end.messages.all(), Some(&*ended(&events)));
    check(&recorder.session("s-1").unwrap(), &[events], &agent);
}

/// A session that the store has lost is an error.
#[tokio::test]
async fn a_store_that_lost_what_was_released_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = agent(0..1);
    let recorder = SessionRecorder::attach(&mut agent, JsonStore::open(dir.path()).unwrap());
    run(&agent).await;
    std::fs::write(dir.path().join("s-1.journal.jsonl"), b"").unwrap();
    assert!(recorder.read_session("s-1").is_err());
    assert!(recorder.session("s-1").is_none() && recorder.sessions().is_empty());
    assert!(recorder.close().await.is_err());
}

/// The loops of an earlier process are released with the next compaction.
#[tokio::test]
async fn a_session_that_is_continued_by_another_process_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut first = agent(0..1);
    let recorder = SessionRecorder::attach(&mut first, store.clone());
    let mut runs = vec![run(&first).await];
    recorder.close().await.unwrap();
    let (second, recorder) = agent(1..2).restore_session(store.clone(), "s-1").await.unwrap();
    runs.push(run(&second).await);
    recorder.close().await.unwrap();
    check(&store.load_session("s-1").unwrap(), &runs, &second);
}

/// A directory whose writers cannot be read back.
#[derive(Debug)]
struct Unread(JsonStore);

#[derive(Debug)]
struct UnreadWriter(Box<dyn BlockingSessionWriter>);

impl BlockingSessionWriter for UnreadWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        self.0.append(record)
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        self.0.save(session)
    }
}

impl BlockingSessionStore for Unread {
    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        self.0.save_session(session)
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.0.load_session(id)
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        self.0.delete_session(id)
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.0.list_session_ids()
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        BlockingSessionStore::find_sessions(&self.0, query)
    }

    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError> {
        let (writer, found) = BlockingSessionStore::write_session(&self.0, id)?;
        Ok((Box::new(UnreadWriter(writer)), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        BlockingSessionStore::salvage_session(&self.0, id)
    }
}

async fn files(dir: &Path, store: impl SessionStore + 'static) -> (String, String) {
    let mut agent = agent(0..2);
    let recorder = SessionRecorder::attach(&mut agent, store);
    run(&agent).await;
    run(&agent).await;
    let journal = std::fs::read_to_string(dir.join("s-1.journal.jsonl")).unwrap();
    recorder.close().await.unwrap();
    (journal, std::fs::read_to_string(dir.join("s-1.json")).unwrap())
}

/// The journal and the file are the same bytes, whether or not the recording releases what is written.
#[tokio::test]
async fn what_is_written_does_not_depend_on_what_is_released() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stores = dirs.each_ref().map(|dir| JsonStore::open(dir.path()).unwrap());
    let [kept, released] = stores;
    let kept: Arc<dyn BlockingSessionStore> = Arc::new(Unread(kept));
    let kept = files(dirs[0].path(), kept).await;
    let released = files(dirs[1].path(), released).await;
    assert!(kept.0.len() > 100_000);
    assert!(kept.0 == released.0, "the journals differ");
    assert!(kept.1 == released.1, "the files differ");
}
