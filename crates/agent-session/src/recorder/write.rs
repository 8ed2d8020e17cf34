//! The implementation of the agent's journal.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use agent_core::journal::{GroupEntry, Journal, JournalEntry, JournalError, JournalWarning, RecordedLoop};
use agent_core::run::{ReadMessagesError, Run, StoredMessages};
use agent_core::{AgentEvent, LoopId, MessageRef, SessionId, ToolExecutionEnd};
use async_trait::async_trait;

use super::Inner;
use super::groups::{session_of_group, session_of_start};
use super::open::AfterSave;
use super::owned::{Owned, Writing};
use super::release::{self, StoredSession};
use super::session_journal::{SessionJournal, session_of_entry};
use super::slot::{Slot, Tracked};
use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::store::{PendingWrite, SessionStore, on_pool};

/// Writes the entries of an agent's runs to a recorder's store. When it is dropped, its sessions are released.
pub(super) struct RecordingJournal {
    inner: Arc<Inner>,
    owned: Owned,
}

impl fmt::Debug for RecordingJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingJournal").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

impl Drop for RecordingJournal {
    fn drop(&mut self) {
        self.owned.release_all(&self.inner);
    }
}

#[async_trait]
impl Journal for RecordingJournal {
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
        let written = match self.owned.check(entry.run) {
            Ok(()) => self.write(&entry).await,
            unrecorded => unrecorded,
        };
        if let Err(error) = &written {
            self.owned.fail(entry.run, error);
        }
        written.map_err(unwritten)
    }

    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        self.write_group(entry).await.map_err(unwritten)
    }

    async fn recorded_loop(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
    ) -> Result<RecordedLoop, JournalError> {
        self.read_loop(session, loop_id).await.map_err(unwritten)
    }

    fn stored_messages(&self, run: &Run) -> Option<Arc<dyn StoredMessages>> {
        let store = Arc::clone(self.inner.store.as_ref()?);
        let (session_id, loop_id) = (run.setup().session_id.clone(), run.loop_id().clone());
        self.inner
            .has_messages_of(run)
            .then(|| -> Arc<dyn StoredMessages> { Arc::new(StoredLoop { store, session_id, loop_id }) })
    }

    fn warning(&self, run: &Run) -> Option<JournalWarning> {
        let slot = self.inner.sessions.find(run.setup().session_id.as_str())?;
        slot.with(|tracked| tracked.journal.as_mut()?.writer.warning()).flatten()
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
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, owned: Owned::default() }
    }

    /// Makes the journal the owner of an open session.
    pub(super) fn own(&self, id: &SessionId) {
        if let Some(slot) = self.inner.sessions.find(id.as_str()) {
            self.owned.add(&slot, &Writing::default());
        }
    }

    /// Reads from the store what is recorded about a loop, because the memory may have released messages. All that is
    /// found is durable.
    async fn read_loop(&self, id: &SessionId, loop_id: &LoopId) -> Result<RecordedLoop, SessionError> {
        let Some(store) = &self.inner.store else { return Ok(RecordedLoop::Unknown) };
        if let Some(slot) = self.inner.sessions.find(id.as_str()) {
            // The run may have been dropped while a record was written. A save completes it.
            self.inner.save_in_task(&slot, AfterSave::Continue).await?;
        }
        let loaded = match store.load_session(id.as_str()).await {
            Ok(loaded) => loaded,
            Err(SessionError::NotFound { .. }) => return Ok(RecordedLoop::Absent),
            Err(error) => return Err(error),
        };
        if self.owned.has(id) {
            // A record could not be written or flushed. Opening the session reads and flushes the stored records.
            self.reopen(store, id, || loaded.clone().into_session()).await?;
        }
        let loop_id = loop_id.clone();
        on_pool(move || loaded.recorded_loop(&loop_id)).await
    }

    /// Opens a session of the agent again after a record of it could not be written.
    async fn reopen(
        &self,
        store: &Arc<dyn SessionStore>,
        id: &SessionId,
        stored: impl Fn() -> Session,
    ) -> Result<(), SessionError> {
        loop {
            let slot = self.inner.sessions.slot(id);
            let _entered = self.inner.enter(&slot).await;
            if !slot.is_gone() {
                return self.inner.open(store, &slot, stored).await;
            }
        }
    }

    async fn write_group(&self, entry: GroupEntry<'_>) -> Result<(), SessionError> {
        let Some(id) = session_of_group(entry.event) else { return Ok(()) };
        // At the end of a group, its session usually exists.
        let new = || match entry.event {
            AgentEvent::ParallelLoopStart(start) => session_of_start(start),
            _ => Session::new(id.clone(), "".into(), entry.now),
        };
        let durability = self.inner.durability(entry.durability);
        let write = |journal: &mut SessionJournal, recording: &mut Recording| {
            journal.append_group(recording, &entry, durability)
        };
        self.record(id, &Writing::default(), new, write, || self.inner.sessions.route_group(entry.event))
            .await
    }

    async fn write(&self, entry: &JournalEntry<'_>) -> Result<(), SessionError> {
        let setup = entry.run.setup();
        let id = &setup.session_id;
        let durability = self.inner.durability(entry.durability);
        let write = |journal: &mut SessionJournal, recording: &mut Recording| {
            journal.append(recording, entry, durability)
        };
        let written = || {
            if let Some(AgentEvent::AgentStart(start)) = entry.events.first() {
                self.inner.sessions.route(&setup.loop_id, id);
                self.inner.sessions.link_start(start);
            }
        };
        let new = || {
            let mut session = session_of_entry(entry);
            if let Some(AgentEvent::AgentStart(start)) = entry.events.first() {
                // From the first record on, so that the sessions of a tree are known after a crash.
                session.parent_spawn_ref = self.inner.sessions.caller_of(start);
            }
            session
        };
        self.record(id, &Writing::of(setup), new, write, written).await?;
        for event in entry.events {
            match event {
                AgentEvent::ToolExecutionEnd(end) => self.end_child(end).await,
                AgentEvent::CompactionEnded(_) => self.inner.release_messages(id, entry.run).await?,
                _ => {}
            }
        }
        if entry.run.ended().is_some() {
            self.owned.release_children(&self.inner, entry.run.loop_id());
        }
        Ok(())
    }

    /// Links the session of a sub-agent whose call has ended, and releases it.
    async fn end_child(&self, end: &ToolExecutionEnd) {
        let Some(child) = self.inner.sessions.link_end(end) else { return };
        let Some(slot) = self.inner.sessions.find(child.as_str()) else { return };
        {
            let _entered = self.inner.enter(&slot).await;
            self.inner.sessions.link_child(&slot, end);
        }
        self.owned.release_child(&self.inner, &slot);
    }

    /// Writes a record to a session, which is opened if it is not open, and waits until the record is as durable as it
    /// asks for.
    async fn record(
        &self,
        id: &SessionId,
        writing: &Writing<'_>,
        new: impl Fn() -> Session,
        write: impl Fn(&mut SessionJournal, &mut Recording) -> Result<Option<PendingWrite>, SessionError>,
        written: impl FnOnce(),
    ) -> Result<(), SessionError> {
        let Some(store) = &self.inner.store else { return Ok(()) };
        let (slot, pending) = loop {
            let slot = self.inner.sessions.slot(id);
            let _entered = self.inner.enter(&slot).await;
            // It may have been closed in between; then another slot opens it again.
            if slot.is_gone() || self.inner.complete_unwritten(&slot).await.is_err() || slot.is_gone() {
                continue;
            }
            if slot.with(|tracked| tracked.journal.is_some()) != Some(true) {
                self.inner.open(store, &slot, &new).await?;
                self.inner.confirm(&slot).await?;
                // An agent that has moved to another session does not return to the previous one.
                for other in self.owned.release_others(&self.inner, id, writing) {
                    release::closed(&StoredSession::new(&**store, &other)).await;
                }
            }
            self.owned.add(&slot, writing);
            slot.unshare().await?;
            match self.inner.append(&slot, &write) {
                Ok(pending) => {
                    written();
                    break (Arc::clone(&slot), pending);
                }
                Err(error) => {
                    self.inner.discard(&slot).await;
                    return Err(error);
                }
            }
        };
        match pending {
            Some(pending) => self.inner.complete(&slot, pending).await,
            None => Ok(()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a bound of a wait that no test and no replay sees")]
fn now() -> Instant {
    Instant::now()
}

/// How long a caller waits for the record of a loop that was dropped.
const UNWRITTEN_WAIT: Duration = Duration::from_millis(250);

/// A record that is appended and not written. If its loop is dropped, the next caller waits for it.
struct Unwritten<'a> {
    slot: &'a Slot,
    pending: Option<PendingWrite>,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.slot.with(|tracked| tracked.unwritten.push_back(pending));
        }
    }
}

impl Inner {
    /// Waits until a record is written. A session whose memory is ahead of its store is removed.
    async fn complete(&self, slot: &Arc<Slot>, pending: PendingWrite) -> Result<(), SessionError> {
        let written = {
            let mut unwritten = Unwritten { slot, pending: Some(pending) };
            let written = poll_fn(|cx| match &mut unwritten.pending {
                Some(pending) => pending.as_mut().poll(cx),
                None => Poll::Ready(Ok(())),
            });
            let written = written.await;
            unwritten.pending = None;
            written
        };
        if written.is_err() {
            self.discard(slot).await;
        }
        written
    }

    /// Waits for the records of loops that were dropped before their records were written. The caller has entered the slot. Of a
    /// write that does not end, the outcome is unknown: the session is removed, and the next caller opens it again.
    pub(super) async fn complete_unwritten(&self, slot: &Arc<Slot>) -> Result<(), SessionError> {
        while let Some(pending) = slot.with(|tracked| tracked.unwritten.pop_front()).flatten() {
            let mut unwritten = Unwritten { slot, pending: Some(pending) };
            let begun = now();
            let written = poll_fn(|cx| {
                let Some(pending) = &mut unwritten.pending else { return Poll::Ready(None) };
                match pending.as_mut().poll(cx) {
                    Poll::Ready(written) => Poll::Ready(Some(written)),
                    Poll::Pending if begun.elapsed() >= UNWRITTEN_WAIT => Poll::Ready(None),
                    // Without a timer, which the caller's runtime may not have.
                    Poll::Pending => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                }
            });
            let written = written.await;
            unwritten.pending = None;
            drop(unwritten);
            match written {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    self.discard(slot).await;
                    return Err(error);
                }
                None => {
                    self.discard(slot).await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Drops what a run does not need after a compaction, if the store can read it back.
    async fn release_messages(&self, id: &SessionId, run: &Run) -> Result<(), SessionError> {
        let Some(slot) = self.sessions.find(id.as_str()) else { return Ok(()) };
        let _entered = self.enter(&slot).await;
        slot.unshare().await?;
        slot.with(|tracked| {
            if tracked.is_written() && tracked.reader.is_some() {
                Arc::make_mut(&mut tracked.recording).release(run);
            }
        });
        Ok(())
    }

    /// Returns whether the store has all messages of a run.
    fn has_messages_of(&self, run: &Run) -> bool {
        let Some(slot) = self.sessions.find(run.setup().session_id.as_str()) else { return false };
        let has_all = slot.with(|tracked| {
            let recording = &tracked.recording;
            let record = recording.record(recording.position(run.loop_id())?)?;
            Some(tracked.is_written() && record.messages.len() == run.new_messages().len())
        });
        has_all.flatten().unwrap_or_default()
    }

    /// Writes a record to an open session, and returns the rest of the write. The caller has entered the slot.
    fn append(
        &self,
        slot: &Arc<Slot>,
        write: impl FnOnce(&mut SessionJournal, &mut Recording) -> Result<Option<PendingWrite>, SessionError>,
    ) -> Result<Option<PendingWrite>, SessionError> {
        let append = |tracked: &mut Tracked| {
            let (mut journal, recording) = (tracked.journal.take(), tracked.recording_mut());
            let pending = journal.as_mut().map(|journal| write(journal, recording));
            tracked.journal = journal;
            tracked.completed = false;
            pending
        };
        let closed = || SessionError::store(format!("session {}", slot.id), "written", "it was closed");
        slot.with(append).flatten().ok_or_else(closed)?
    }

    /// Returns the durability of an entry that asks for `wanted`.
    fn durability(&self, wanted: agent_core::journal::Durability) -> agent_core::journal::Durability {
        match self.options.lock().unwrap_or_else(PoisonError::into_inner).flushing {
            super::Flushing::WhenAsked => wanted,
            super::Flushing::Never => agent_core::journal::Durability::Buffered,
        }
    }
}
