//! One session of a recorder, and its two locks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agent_core::SessionId;

use super::Inner;
use super::release::{Release, StoredSession};
use super::session_journal::SessionJournal;
use crate::error::SessionError;
use crate::model::recording::{Partial, Recording};
use crate::store::{PendingWrite, SessionReader, on_pool};

/// A session of a recorder.
pub(super) struct Slot {
    pub(super) id: SessionId,
    /// Held while the session is opened, saved or closed, and while a record is added. It is awaited, so that no
    /// thread waits.
    gate: tokio::sync::Mutex<()>,
    /// Locked for moments only: nothing is copied, opened, saved or flushed meanwhile.
    state: Mutex<State>,
}

enum State {
    /// The session was not opened yet.
    New,
    Present(Box<Tracked>),
    /// The session was closed, and the recorder has another slot for it, or none.
    Gone,
}

/// The content of a session that a recorder has.
pub(super) struct Tracked {
    /// Shared with those who are reading it.
    pub(super) recording: Arc<Recording>,
    /// The journal, for a session that is written to the store.
    pub(super) journal: Option<SessionJournal>,
    /// Whether it was completed by [`SessionRecorder::compact_journal`] or [`SessionRecorder::flush`].
    ///
    /// [`SessionRecorder::compact_journal`]: super::SessionRecorder::compact_journal
    /// [`SessionRecorder::flush`]: super::SessionRecorder::flush
    pub(super) completed: bool,
    /// Whether its writer is in use by a save.
    pub(super) saving: bool,
    /// Whether it changed since it was last handed out.
    pub(super) changed: bool,
    /// Whether it changed since it was last saved.
    pub(super) unsaved: bool,
    /// Whether no agent needs it any more, so that it is released as soon as its gate is free.
    pub(super) unneeded: bool,
    /// The journals of the agents that write it.
    owners: Vec<Weak<Owner>>,
    /// The records that loops appended before they were dropped, and that may not be written.
    pub(super) unwritten: VecDeque<PendingWrite>,
    /// Reads what the recording has released.
    pub(super) reader: Option<SessionReader>,
}

/// Stands for the journal of an agent, as long as it lives.
pub(super) struct Owner;

impl Tracked {
    pub(super) fn new(recording: Recording, journal: Option<SessionJournal>, changed: bool) -> Self {
        let reader = journal.as_ref().and_then(|journal| journal.writer.reader());
        Self {
            recording: Arc::new(recording),
            journal,
            completed: false,
            saving: false,
            changed,
            unsaved: changed,
            unneeded: false,
            owners: Vec::new(),
            unwritten: VecDeque::new(),
            reader,
        }
    }

    /// Returns the session as it is now. It is copied when it is read.
    pub(super) fn snapshot(&self) -> Partial {
        Partial::new(Arc::clone(&self.recording), self.reader.clone())
    }

    /// Returns the session without copying it, unless another caller reads it.
    pub(super) fn into_snapshot(self) -> Partial {
        Partial::new(self.recording, self.reader)
    }

    /// Returns the recording to be changed.
    pub(super) fn recording_mut(&mut self) -> &mut Recording {
        self.changed = true;
        self.unsaved = true;
        Arc::make_mut(&mut self.recording)
    }

    /// Whether the session is written to a store, so that its events come from the journal.
    pub(super) fn is_written(&self) -> bool {
        self.journal.is_some() || self.saving
    }

    /// Adds an owner, and returns whether it is new.
    pub(super) fn own(&mut self, owner: &Arc<Owner>) -> bool {
        self.unneeded = false;
        let is_new = !self.owners.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(owner)));
        if is_new {
            self.owners.retain(|known| known.strong_count() > 0);
            self.owners.push(Arc::downgrade(owner));
        }
        is_new
    }

    pub(super) fn has_owner(&self) -> bool {
        self.owners.iter().any(|owner| owner.strong_count() > 0)
    }
}

impl Slot {
    pub(super) fn new(id: SessionId) -> Self {
        Self { id, gate: tokio::sync::Mutex::new(()), state: Mutex::new(State::New) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `read` with the session, if it is present.
    pub(super) fn with<T>(&self, read: impl FnOnce(&mut Tracked) -> T) -> Option<T> {
        match &mut *self.state() {
            State::Present(tracked) => Some(read(tracked)),
            State::New | State::Gone => None,
        }
    }

    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.state(), State::Gone)
    }

    /// Calls `read` with the session, which `new` creates if it was not opened. `None` if it is gone.
    pub(super) fn with_or_new<T>(
        &self,
        new: impl FnOnce() -> Tracked,
        read: impl FnOnce(&mut Tracked) -> T,
    ) -> Option<T> {
        let mut state = self.state();
        if matches!(*state, State::New) {
            *state = State::Present(Box::new(new()));
        }
        match &mut *state {
            State::Present(tracked) => Some(read(tracked)),
            State::New | State::Gone => None,
        }
    }

    /// Stores an opened session. Returns what was recorded in memory until now.
    pub(super) fn put(&self, tracked: Tracked) -> Option<Box<Tracked>> {
        match std::mem::replace(&mut *self.state(), State::Present(Box::new(tracked))) {
            State::Present(before) => Some(before),
            State::New | State::Gone => None,
        }
    }

    /// Removes the session if `may` allows it. The slot cannot be used afterwards.
    pub(super) fn take(&self, may: impl FnOnce(&Tracked) -> bool) -> Option<Box<Tracked>> {
        let mut state = self.state();
        match &*state {
            State::Present(tracked) if may(tracked) => {}
            _ => return None,
        }
        match std::mem::replace(&mut *state, State::Gone) {
            State::Present(tracked) => Some(tracked),
            State::New | State::Gone => None,
        }
    }

    /// Marks a slot that was never opened as gone, and returns whether it was one.
    pub(super) fn retire(&self) -> bool {
        let mut state = self.state();
        let is_new = matches!(*state, State::New);
        if is_new {
            *state = State::Gone;
        }
        is_new
    }

    /// Makes the recording this slot's own, so that the next record copies nothing. The copy is made on the blocking pool.
    /// The caller has entered the slot.
    pub(super) async fn unshare(&self) -> Result<(), SessionError> {
        let shared =
            self.with(|t| (Arc::strong_count(&t.recording) > 1).then(|| Arc::clone(&t.recording))).flatten();
        let Some(shared) = shared else { return Ok(()) };
        let own = on_pool(move || Ok(Arc::new(Recording::clone(&shared)))).await?;
        self.with(|tracked| tracked.recording = own);
        Ok(())
    }
}

/// The right to open, write, save and close a session.
pub(super) struct Entered<'a> {
    inner: &'a Inner,
    slot: &'a Arc<Slot>,
    gate: Option<tokio::sync::MutexGuard<'a, ()>>,
}

/// A session that became unneeded in the meantime is released.
impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.gate = None;
        self.inner.release(self.slot);
    }
}

impl Inner {
    /// Waits until no other caller opens, writes, saves or closes the session.
    pub(super) async fn enter<'a>(&'a self, slot: &'a Arc<Slot>) -> Entered<'a> {
        let gate = Some(slot.gate.lock().await);
        Entered { inner: self, slot, gate }
    }

    /// Releases a session that is not needed any more: it is saved and its writer is dropped, on the blocking pool where
    /// there is a runtime. If its gate is taken, it is released when the gate is free.
    pub(super) fn release(&self, slot: &Arc<Slot>) {
        if slot.with(|tracked| tracked.unneeded) != Some(true) {
            return;
        }
        let Ok(gate) = slot.gate.try_lock() else { return };
        if let Some(store) = &self.store
            && let Some(tracked) = slot.take(|tracked| tracked.unneeded)
        {
            self.sessions.remove(slot);
            let session = StoredSession::new(&**store, &slot.id);
            Release::new(session, tracked, self.this.clone()).begin();
        }
        drop(gate);
    }
}
