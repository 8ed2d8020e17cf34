//! Opens, saves and closes the sessions of a recorder. Each waits for its own session only.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use agent_core::SessionId;
use tokio::sync::Semaphore;

use super::release::StoredSession;
use super::session_journal::SessionJournal;
use super::slot::{Slot, Tracked};
use super::{Inner, release};
use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::store::{SessionStore, drop_on_pool, on_pool};

/// The maximum number of sessions that are opened at the same time, by all recorders of the process.
const MAX_OPENINGS: usize = 8;

/// The maximum number of sessions that are saved at the same time, by all recorders of the process, in addition to those
/// that are released.
const MAX_SAVES: usize = 4;

static OPENINGS: Semaphore = Semaphore::const_new(MAX_OPENINGS);
static SAVES: Semaphore = Semaphore::const_new(MAX_SAVES);

/// What happens to a session after it was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterSave {
    Continue,
    Close,
}

/// A slot that is being opened. If that fails, the slot is removed.
struct Opening<'a> {
    inner: &'a Inner,
    slot: &'a Arc<Slot>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if self.slot.retire() {
            self.inner.sessions.remove(self.slot);
        }
    }
}

/// Opens the journal of a session as soon as this process is not closing it any more.
pub(super) async fn open_journal<S: SessionStore + ?Sized>(
    store: &S,
    id: &SessionId,
) -> Result<(SessionJournal, Option<Recording>), SessionError> {
    release::ready(&StoredSession::new(store, id)).await;
    // The semaphore is never closed.
    let _permit = OPENINGS.acquire().await;
    SessionJournal::open(store, id).await
}

/// Drops the journal of a session on the blocking pool, because its files are closed and removed, and waits for that.
pub(super) async fn close<T: Send + 'static>(journal: T) {
    let closed = on_pool(move || {
        drop(journal);
        Ok(())
    });
    if let Err(error) = closed.await {
        tracing::warn!(%error, "a session was not closed properly");
    }
}

impl Inner {
    pub(super) fn writes(&self, id: &SessionId) -> bool {
        self.sessions.find(id.as_str()).and_then(|slot| slot.with(|t| t.is_written())).unwrap_or_default()
    }

    /// Opens a session for writing unless it is open. The caller has entered the slot, and it is not gone.
    pub(super) async fn open(
        &self,
        store: &Arc<dyn SessionStore>,
        slot: &Arc<Slot>,
        new: impl FnOnce() -> Session,
    ) -> Result<(), SessionError> {
        if slot.with(|tracked| tracked.journal.is_some()) == Some(true) {
            return Ok(());
        }
        let _opening = Opening { inner: self, slot };
        let (journal, found) = open_journal(&**store, &slot.id).await?;
        let is_new = found.is_none();
        let recording = found.unwrap_or_else(|| Recording::new(new()));
        self.sessions.route_all(&recording.session);
        let mut tracked = Tracked::new(recording, Some(journal), true);
        tracked.unsaved = is_new;
        drop(slot.put(tracked));
        Ok(())
    }

    /// Saves all sessions. Each is saved by its own task, so that nothing is lost if the caller does not wait.
    pub(super) async fn save_all(self: &Arc<Self>, after: AfterSave) -> Result<Vec<SessionId>, SessionError> {
        let Some(store) = &self.store else { return Ok(Vec::new()) };
        let (mut saved, mut failed) = (Vec::new(), None);
        for slot in self.sessions.slots() {
            match self.save_in_task(&slot, after).await {
                Ok(true) => saved.push(slot.id.clone()),
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        release::all_closed(&**store).await;
        failed.map_or(Ok(saved), Err)
    }

    /// Saves one session, also if the caller stops waiting. Returns whether the recorder has the session.
    pub(super) async fn save_in_task(
        self: &Arc<Self>,
        slot: &Arc<Slot>,
        after: AfterSave,
    ) -> Result<bool, SessionError> {
        let (inner, slot) = (Arc::clone(self), Arc::clone(slot));
        let work = async move { inner.save_one(&slot, after).await };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work.await };
        match runtime.spawn(work).await {
            Ok(saved) => saved,
            Err(error) => Err(SessionError::store("the session", "saved", error)),
        }
    }

    async fn save_one(&self, slot: &Arc<Slot>, after: AfterSave) -> Result<bool, SessionError> {
        let _entered = self.enter(slot).await;
        self.complete_unwritten(slot).await?;
        // The semaphore is never closed.
        let _permit = SAVES.acquire().await;
        let taken = slot.with(|tracked| {
            let journal = tracked.journal.take();
            tracked.saving = journal.is_some();
            (tracked.snapshot(), journal)
        });
        let Some((snapshot, journal)) = taken else { return Ok(false) };
        let mut taken = Taken { slot, journal };
        let session = on_pool(move || snapshot.read()).await?;
        match (&mut taken.journal, &self.store) {
            (Some(journal), _) => {
                if let Err(error) = journal.save(session).await {
                    drop(taken);
                    // The store may have the session or not. The next record reads it again, and no record is lost with the memory.
                    if !error.is_before_write() {
                        self.discard(slot).await;
                    }
                    return Err(error);
                }
            }
            (None, Some(store)) => {
                let saved = store.save_session(&session).await;
                drop_on_pool(session);
                saved?;
            }
            (None, None) => {}
        }
        drop(taken);
        slot.with(|tracked| tracked.unsaved = false);
        if after == AfterSave::Close
            && let Some(tracked) = slot.take(|_| true)
        {
            self.sessions.remove(slot);
            let inner = self.this.clone();
            on_pool(move || {
                if let Some(inner) = inner.upgrade() {
                    inner.sessions.unroute_all(&tracked.recording.session);
                }
                drop(tracked);
                Ok(())
            })
            .await?;
        }
        Ok(true)
    }

    /// Removes a session whose memory is ahead of the store, so that the next record starts from the stored state. Its lock has
    /// ended when this returns, so that the session can be opened again.
    pub(super) async fn discard(&self, slot: &Arc<Slot>) {
        if let Some(tracked) = slot.take(|_| true) {
            self.unconfirmed().insert(slot.id.clone(), tracked.recording.session.journal_records);
            self.sessions.remove(slot);
            close(tracked).await;
        }
    }

    /// Checks a session that was just opened again after it was [discarded](Self::discard): it has no records of another writer.
    ///
    /// # Errors
    /// [`SessionError::LeaseLost`] if it has. The session is closed then, until it is loaded again.
    pub(super) async fn confirm(&self, slot: &Arc<Slot>) -> Result<(), SessionError> {
        let Some(written) = self.unconfirmed().get(&slot.id).copied() else { return Ok(()) };
        let found = slot.with(|tracked| tracked.recording.session.journal_records).unwrap_or_default();
        if found <= written {
            self.unconfirmed().remove(&slot.id);
            return Ok(());
        }
        if let Some(tracked) = slot.take(|_| true) {
            self.sessions.remove(slot);
            close(tracked).await;
        }
        let reason = format!("another writer has recorded {} entries since", found.saturating_sub(written));
        Err(SessionError::LeaseLost { session_id: slot.id.clone(), reason })
    }

    /// Returns the number of the last record that this recorder wrote to sessions whose memory was ahead of their store.
    pub(super) fn unconfirmed(&self) -> MutexGuard<'_, BTreeMap<SessionId, u64>> {
        self.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer of a session that is being saved. It returns to the session also if the save fails.
struct Taken<'a> {
    slot: &'a Slot,
    journal: Option<SessionJournal>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            self.slot.with(|tracked| {
                tracked.journal = Some(journal);
                tracked.saving = false;
            });
        }
    }
}
