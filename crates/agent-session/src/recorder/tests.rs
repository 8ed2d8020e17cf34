use std::path::Path;
use std::sync::Arc;

use agent_core::testing::{ScriptedProvider, ScriptedReply, ScriptedTool};
use agent_core::{BasicAgent, ModelConfig, RunEnd, RunFailure};
use serde_json::json;

use super::SessionRecorder;
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};
use crate::store::{JsonStore, PendingWrite, SessionRecord, SessionWriter};

fn events_of(session: &Session) -> usize {
    session.loops.iter().map(|r| r.events.len()).sum()
}

/// An agent whose tool does something to the recorder in the middle of a run.
fn agent<F: Future<Output = ()> + Send + 'static>(
    meddle: impl Fn(SessionRecorder) -> F + Send + Sync + 'static,
) -> (tempfile::TempDir, JsonStore, BasicAgent) {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path()).unwrap();
    let mut agent = BasicAgent::new(ModelConfig::default()).with_session_id("s-1").with_provider(
        ScriptedProvider::new([
            ScriptedReply::call("c1", "meddle", json!({})),
            ScriptedReply::text("after"),
            ScriptedReply::text("later"),
        ]),
    );
    let recorder = SessionRecorder::attach(&mut agent, store.clone());
    let meddle = Arc::new(meddle);
    let tool = ScriptedTool::new("meddle", move |_, _| {
        let meddling = meddle(recorder.clone());
        async {
            meddling.await;
            Ok(agent_core::ToolResult::text("done"))
        }
    });
    (dir, store, agent.with_tool(tool))
}

/// A writer to which no record can be added, as on a full disk. It holds the lock of the writer that it replaces.
#[derive(Debug)]
struct Full(Option<Box<dyn SessionWriter>>);

#[async_trait::async_trait]
impl SessionWriter for Full {
    fn append(&mut self, _: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        let full = std::io::ErrorKind::StorageFull;
        Err(SessionError::io(Path::new("s-1.journal.jsonl"), "written")(full.into()))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        self.0.as_mut().unwrap().save(session).await
    }

    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        self.0.as_mut().unwrap().save_on_drop(session)
    }
}

/// B-179.
#[tokio::test]
async fn a_record_that_cannot_be_written_ends_the_run_and_memory_is_not_ahead_of_the_disk() {
    let (_dir, store, agent) = agent(|recorder| async move {
        recorder.inner.sessions.slots()[0].with(|tracked| {
            let journal = tracked.journal.as_mut().unwrap();
            let writer = std::mem::replace(&mut journal.writer, Box::new(Full(None)));
            journal.writer = Box::new(Full(Some(writer)));
        });
    });
    let recorder_sees = |store: &JsonStore| store.load_session("s-1").unwrap();
    drop(agent.prompt("go").unwrap());
    let Some(RunEnd::Failed(RunFailure::Interrupted { reason })) = agent.finish().await else { panic!() };
    assert!(reason.contains("s-1.journal.jsonl could not be written"), "{reason}");
    let found = recorder_sees(&store);
    assert_eq!(found.loops[0].status, LoopStatus::Interrupted);
    // The call had begun; that it ended was not written, so nothing after it is there.
    assert!(found.open_run().unwrap().is_some());
    let before = events_of(&found);

    // When there is room again, the agent goes on.
    drop(agent.prompt("again").unwrap());
    let Some(RunEnd::Completed(_)) = agent.finish().await else { panic!() };
    let found = recorder_sees(&store);
    assert_eq!(
        found.loops.iter().map(|r| r.status).collect::<Vec<_>>(),
        [LoopStatus::Interrupted, LoopStatus::Completed]
    );
    assert!(events_of(&found) > before);
    assert_eq!(found.history().unwrap(), agent.history());
}

/// REQ-216.
#[tokio::test]
async fn a_save_in_the_middle_of_a_run_loses_nothing_and_nothing_comes_twice() {
    for close in [false, true] {
        let (dir, store, agent) = agent(move |recorder| async move {
            if close { recorder.close().await } else { recorder.save().await }.unwrap();
        });
        drop(agent.prompt("go").unwrap());
        agent.finish().await;
        let both = store.load_session("s-1").unwrap();
        assert_eq!(both.history().unwrap(), agent.history());
        let sequences: Vec<u64> = both.loops[0].events.iter().map(|e| e.sequence).collect();
        assert_eq!(sequences, (0..sequences.len() as u64).collect::<Vec<_>>());
        assert!(both.loops[0].other_messages.is_empty());

        // A crash between the file's replacement and the journal's emptying leaves both.
        let journal = std::fs::read(dir.path().join("s-1.journal.jsonl")).unwrap();
        assert!(!journal.is_empty());
        drop(agent);
        // The last handle saved the session and released it: a caller that opens it waits for that.
        let session = super::release::StoredSession::new(&store, &"s-1".into());
        super::release::closed(&session).await;
        assert!(!dir.path().join("s-1.lock").exists());
        std::fs::write(dir.path().join("s-1.journal.jsonl"), journal).unwrap();
        assert_eq!(*store.load_session("s-1").unwrap(), *both);
    }
}

/// REQ-217: a directory that cannot be written is a typed error before anything is done.
#[tokio::test]
async fn where_nothing_can_be_written_no_model_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let store = JsonStore::open(dir.path().join("sessions")).unwrap();
    std::fs::create_dir(dir.path().join("sessions/s-1.journal.jsonl")).unwrap();
    let provider = ScriptedProvider::texts(["never"]);
    let mut agent =
        BasicAgent::new(ModelConfig::default()).with_session_id("s-1").with_provider(provider.clone());
    let recorder = SessionRecorder::attach(&mut agent, store);
    assert!(recorder.ready("s-1").await.is_err());
    let error = agent.chat("go").await.unwrap_err().to_string();
    assert!(error.contains("s-1.journal.jsonl"), "{error}");
    assert_eq!(provider.requests().len(), 0);
    assert!(recorder.ready("a/b").await.unwrap_err().to_string().contains("cannot be used as a file name"));
}
