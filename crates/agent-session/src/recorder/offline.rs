//! Adds a record to a session without its agent.

use agent_core::SessionId;
use agent_core::Timestamp;
use agent_core::journal::{AppliedInput, Durability, JournalEntry};
use agent_core::run::{Input, Run};

use super::session_journal::SessionJournal;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::store::SessionStore;

/// Applies an input to the open run of a session, journals it, and returns the new session and run.
pub(crate) async fn apply_offline<S: SessionStore + ?Sized>(
    store: &S,
    id: &str,
    now: Timestamp,
    input: &Input,
) -> Result<(Session, Run), SessionError> {
    // Checked first, so that a session that does not exist or does not wait is not opened for writing.
    let session_id = SessionId::from(id);
    if store.load_session(id).await?.open_run()?.is_none() {
        return Err(SessionError::NotWaiting { session_id });
    }
    let (mut journal, recording) = SessionJournal::open(store, &session_id).await?;
    let Some(mut recording) = recording else { return Err(SessionError::NotWaiting { session_id }) };
    let loaded = LoadedSession::new(recording.session.clone());
    let Some(mut run) = loaded.open_run()? else { return Err(SessionError::NotWaiting { session_id }) };
    if run.questions().is_empty() {
        return Err(SessionError::NotWaiting { session_id });
    }
    let mut events = Vec::new();
    run.apply(now, input.clone(), &mut events).map_err(agent_core::AgentError::from)?;
    let inputs = [AppliedInput { now, input: input.clone() }];
    let entry = JournalEntry::new(&run, &inputs, &events, Durability::Flushed);
    if let Some(job) = journal.append(&mut recording, &entry, entry.durability)? {
        job.await?;
    }
    journal.save(&recording.session).await?;
    Ok((recording.session, run))
}
