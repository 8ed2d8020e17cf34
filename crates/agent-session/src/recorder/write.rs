//! The implementation of the agent's journal.

use std::fmt;
use std::sync::Arc;

use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError, RecordedLoop};
use agent_core::run::{ReadMessagesError, Run, StoredMessages};
use agent_core::{AgentEvent, LoopId, MessageRef, SessionId};
use async_trait::async_trait;

use super::groups::{session_of_group, session_of_start};
use super::session_journal::{SessionJournal, session_of_entry};
use super::{Inner, State, Tracked};
use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::store::{PendingWrite, SessionStore, on_pool};

/// Writes the entries of runs to a recorder's store.
pub(super) struct RecordingJournal(pub(super) Arc<Inner>);

impl fmt::Debug for RecordingJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingJournal").field("store", &self.0.store).finish()
    }
}

#[async_trait]
impl Journal for RecordingJournal {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        self.write(entry).await.map_err(unwritten)
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.write_group(entry).await.map_err(unwritten)
    }

    async fn recorded_loop(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
    ) -> Result<RecordedLoop, JournalError> {
        let unread = |error: SessionError| JournalError::new(error.to_string(), Some(Box::new(error)));
        let Some(store) = &self.0.store else { return Ok(RecordedLoop::Unknown) };
        // From the store, because the memory may have released messages.
        match store.load_session(session.as_str()).await {
            Ok(loaded) => loaded.recorded_loop(loop_id).map_err(unread),
            Err(SessionError::NotFound { .. }) => Ok(RecordedLoop::Absent),
            Err(error) => Err(unread(error)),
        }
    }

    fn stored_messages(&self, run: &Run) -> Option<Arc<dyn StoredMessages>> {
        let store = Arc::clone(self.0.store.as_ref()?);
        let (session_id, loop_id) = (run.setup().session_id.clone(), run.loop_id().clone());
        self.0
            .has_messages_of(run)
            .then(|| -> Arc<dyn StoredMessages> { Arc::new(StoredLoop { store, session_id, loop_id }) })
    }
}

fn unwritten(error: SessionError) -> JournalError {
    JournalError::new(error.to_string(), Some(Box::new(error)))
}

/// Reads the messages of a loop from the store.
#[derive(Debug)]
struct StoredLoop {
    store: Arc<dyn SessionStore>,
    session_id: SessionId,
    loop_id: LoopId,
}

#[async_trait]
impl StoredMessages for StoredLoop {
    async fn read(&self) -> Result<Vec<MessageRef>, ReadMessagesError> {
        let failed = |message: String, source| ReadMessagesError::failed(message, source);
        let session = self.store.load_session(self.session_id.as_str()).await;
        let session = session.map_err(|error| failed(error.to_string(), Some(Box::new(error))))?;
        match session.into_session().loops.into_iter().find(|record| record.loop_id == self.loop_id) {
            Some(record) => Ok(record.messages),
            None => {
                let (session, id) = (&self.session_id, &self.loop_id);
                Err(failed(format!("session {session} in {} has no loop {id}", self.store.describe()), None))
            }
        }
    }
}

impl RecordingJournal {
    async fn write_group(&self, entry: GroupEntry<'_>) -> Result<(), SessionError> {
        let Some(id) = session_of_group(entry.event) else { return Ok(()) };
        // At the end of a group, its session usually exists.
        let new = || match entry.event {
            AgentEvent::ParallelLoopStart(start) => session_of_start(start),
            _ => Session::new(id.clone(), "".into(), entry.now),
        };
        let durability = self.0.durability(entry.durability);
        let write = |journal: &mut SessionJournal, recording: &mut Recording| {
            journal.append_group(recording, &entry, durability)
        };
        let written = |state: &mut State| {
            if let AgentEvent::ParallelLoopStart(start) = entry.event {
                state.route_group(start, id);
            }
        };
        self.record(id, new, write, written).await
    }

    async fn write(&self, entry: JournalEntry<'_>) -> Result<(), SessionError> {
        let id = &entry.run.setup().session_id;
        let durability = self.0.durability(entry.durability);
        let write = |journal: &mut SessionJournal, recording: &mut Recording| {
            journal.append(recording, &entry, durability)
        };
        let written = |state: &mut State| {
            let loop_id = entry.run.loop_id().clone();
            state.routes.entry(loop_id).or_insert_with(|| id.clone());
            for event in entry.events {
                state.link(event);
            }
        };
        self.record(id, || session_of_entry(&entry), write, written).await?;
        if entry.events.iter().any(|event| matches!(event, AgentEvent::CompactionEnded(_))) {
            self.0.release(id, entry.run);
        }
        Ok(())
    }

    /// Writes a record to a session, which is opened if it is not open, and waits until the record is as durable as it
    /// asks for.
    async fn record(
        &self,
        id: &SessionId,
        new: impl Fn() -> Session,
        write: impl Fn(&mut SessionJournal, &mut Recording) -> Result<Option<PendingWrite>, SessionError>,
        written: impl Fn(&mut State),
    ) -> Result<(), SessionError> {
        let Some(store) = &self.0.store else { return Ok(()) };
        let job = loop {
            if !self.0.writes(id) {
                self.open(store, id, new()).await?;
            }
            // It may have been closed in between; then it is opened again.
            if let Some(job) = self.0.write(id, &write, &written)? {
                break job;
            }
        };
        if let Some(job) = job
            && let Err(error) = job.await
        {
            self.0.lock().sessions.remove(id);
            return Err(error);
        }
        Ok(())
    }

    pub(super) async fn open(
        &self,
        store: &Arc<dyn SessionStore>,
        id: &SessionId,
        new: Session,
    ) -> Result<(), SessionError> {
        let one = self.0.opening.lock().await;
        if self.0.writes(id) {
            return Ok(());
        }
        let (journal, found) = SessionJournal::open(&**store, id).await?;
        let recording = found.unwrap_or_else(|| Recording::new(new));
        let idle = self.0.begin_writing(id, journal, recording);
        // An agent that has moved to another session does not return to the previous one.
        for id in idle {
            if let Err(error) = self.0.save_one(&id, true, &one).await {
                tracing::warn!(session = %id, %error, "a session could not be saved; its journal holds it");
            }
        }
        Ok(())
    }
}

impl Inner {
    pub(super) fn writes(&self, id: &SessionId) -> bool {
        self.lock().sessions.get(id).is_some_and(|t| t.journal.is_some())
    }

    /// Adds an opened session, and returns the other sessions of the same agent that have no open loop.
    fn begin_writing(&self, id: &SessionId, journal: SessionJournal, recording: Recording) -> Vec<SessionId> {
        let mut state = self.lock();
        let agent = recording.session.agent_id.clone();
        let idle = state
            .sessions
            .iter()
            .filter(|(other, t)| {
                *other != id
                    && t.journal.is_some()
                    && t.recording.session.agent_id == agent
                    && !t.recording.has_open_loop()
            })
            .map(|(other, _)| other.clone())
            .collect();
        for record in &recording.session.loops {
            state.route(record, id);
        }
        let tracked = Tracked::new(recording, Some(journal), true);
        state.sessions.insert(id.clone(), tracked);
        idle
    }

    /// Drops what a run does not need after a compaction, if the store can read it back.
    fn release(&self, id: &SessionId, run: &Run) {
        let mut state = self.lock();
        if let Some(tracked) = state.sessions.get_mut(id).filter(|t| t.is_written() && t.reader.is_some()) {
            tracked.recording.release(run);
        }
    }

    /// Returns whether the store has all messages of a run.
    fn has_messages_of(&self, run: &Run) -> bool {
        let state = self.lock();
        let tracked = state.sessions.get(&run.setup().session_id).filter(|t| t.is_written());
        let record = tracked.and_then(|t| t.recording.record(t.recording.position(run.loop_id())?));
        record.is_some_and(|record| record.messages.len() == run.new_messages().len())
    }

    /// Writes a record to a session that is open for writing, and returns the rest of the write; `None` when it is not
    /// open.
    fn write(
        &self,
        id: &SessionId,
        write: impl FnOnce(&mut SessionJournal, &mut Recording) -> Result<Option<PendingWrite>, SessionError>,
        written: impl FnOnce(&mut State),
    ) -> Result<Option<Option<PendingWrite>>, SessionError> {
        let mut state = self.lock();
        let Some(Tracked { recording, journal: Some(journal), changed, completed, .. }) =
            state.sessions.get_mut(id)
        else {
            return Ok(None);
        };
        let job = write(journal, recording);
        *changed = true;
        *completed = false;
        match job {
            Ok(job) => {
                written(&mut state);
                Ok(Some(job))
            }
            Err(error) => {
                // The memory is ahead of the store: drop it, so that the next record starts from the stored state.
                state.sessions.remove(id);
                Err(error)
            }
        }
    }

    /// Saves one session, and closes it if `close` is `true`. The caller holds the lock for opening, so that no record
    /// opens the session again while its writer is in use here.
    pub(super) async fn save_one(
        &self,
        id: &SessionId,
        close: bool,
        _opening: &tokio::sync::MutexGuard<'_, ()>,
    ) -> Result<(), SessionError> {
        let (held, journal) = {
            let mut state = self.lock();
            let Some(tracked) = state.sessions.get_mut(id) else { return Ok(()) };
            let journal = tracked.journal.take();
            tracked.saving = journal.is_some();
            (tracked.copy(), journal)
        };
        let mut taken = Taken { inner: self, id, journal };
        let session = if held.is_whole() { held.read()? } else { on_pool(move || held.read()).await? };
        let saved = match (&mut taken.journal, &self.store) {
            (Some(journal), _) => journal.save(&session).await,
            (None, Some(store)) => store.save_session(&session).await,
            (None, None) => Ok(()),
        };
        drop(taken);
        if close && saved.is_ok() {
            let mut state = self.lock();
            state.sessions.remove(id);
            state.routes.retain(|_, session| session != id);
        }
        saved
    }
}

/// The writer of a session that is being saved. It returns to the session also when the future is dropped.
struct Taken<'a> {
    inner: &'a Inner,
    id: &'a SessionId,
    journal: Option<SessionJournal>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take()
            && let Some(tracked) = self.inner.lock().sessions.get_mut(self.id)
        {
            tracked.journal = Some(journal);
            tracked.saving = false;
        }
    }
}
