//! Recording of sessions, to a store or in memory.
//!
//! [`SessionRecorder::attach`] makes the recorder the agent's journal: each input of a run is written before the run acts
//! on it, and a run whose input cannot be written ends. [`SessionRecorder::new`] records in memory the events that are
//! passed to [`on_event`](SessionRecorder::on_event).
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{BasicAgent, ModelConfig};
//! use agent_session::SessionRecorder;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(ScriptedProvider::texts(["One.", "Two."]));
//! let recorder = SessionRecorder::new();
//! for prompt in ["First", "Second"] {
//!     for event in agent.prompt(prompt)?.collect().await {
//!         recorder.on_event(&event);
//!     }
//! }
//! let sessions = recorder.sessions();
//! assert_eq!(sessions[0].loops.len(), 2);
//! assert_eq!(sessions[0].history()?, agent.history());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod events;
mod groups;
mod links;
mod offline;
mod open;
mod owned;
mod recent_histories;
mod release;
mod session_journal;
mod sessions;
mod slot;
mod write;

#[cfg(test)]
mod tests;

use agent_core::compat::SeedSetters as _;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use agent_core::{BasicAgent, SessionId};

use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::Partial;
use crate::store::{SessionStore, on_pool};
pub(crate) use offline::{apply_offline, complete_offline};
use open::{AfterSave, close, open_journal};
use release::{Release, StoredSession};
use sessions::Sessions;
use write::RecordingJournal;

/// Records the sessions of any number of agents. Clones are handles to the same recorder.
///
/// A session is open, with a journal and a lock, from the first record of a run until its agent is dropped, the agent
/// begins another session, or [`close`](Self::close). The session of a sub-agent is open until the call that started it has
/// ended. Then the session is saved and closed in the background, on the blocking pool of the runtime; a caller that opens it
/// in this process waits for that. An open session of a [`JsonStore`](crate::JsonStore) has one file descriptor.
///
/// Files are opened, created, flushed, read and closed on the blocking pool of the runtime. The only work with files on the
/// runtime's own threads is the write of a record to a journal that is open, which the system copies to its cache.
///
/// An agent that is dropped when the runtime shuts down is saved in place, as far as its store can do that without
/// waiting. Call [`close`](Self::close) before, to wait for the save and to receive its errors.
#[derive(Clone)]
pub struct SessionRecorder {
    inner: Arc<Inner>,
}

struct Inner {
    this: Weak<Inner>,
    store: Option<Arc<dyn SessionStore>>,
    options: Mutex<Options>,
    sessions: Sessions,
    unconfirmed: Mutex<BTreeMap<SessionId, u64>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Options {
    streaming_events: bool,
    flushing: Flushing,
}

/// When records are flushed to the disk, so that they survive a crash of the machine. A crash of the process loses no
/// acknowledged record in either mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Flushing {
    /// At the end of each turn, before a question to the user, and before a call that must not run twice.
    #[default]
    WhenAsked,
    /// When the operating system writes its cache.
    Never,
}

impl SessionRecorder {
    /// Creates a recorder in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::build(None)
    }

    /// Creates a recorder that writes the runs of the agents that it [records](Self::record) to a store.
    #[must_use]
    pub fn with_store(store: impl SessionStore + 'static) -> Self {
        Self::build(Some(Arc::new(store)))
    }

    /// Records an agent to a store, from its next run on.
    ///
    /// The session is opened and locked with its first record. If that fails, the run ends with the reason;
    /// [`ready`](Self::ready) checks beforehand. To continue a stored session use
    /// [`restore_session`](crate::RestoreSession::restore_session), which opens it at once.
    #[must_use]
    pub fn attach(agent: &mut BasicAgent, store: impl SessionStore + 'static) -> Self {
        let recorder = Self::with_store(store);
        recorder.record(agent);
        recorder
    }

    /// Records another agent from its next run on. A recorder without a store writes nothing.
    pub fn record(&self, agent: &mut BasicAgent) {
        agent.set_journal(Some(Arc::new(RecordingJournal::new(Arc::clone(&self.inner)))));
    }

    /// Records an agent that was restored from an open session, which is closed when the agent is dropped.
    pub(crate) fn record_restored(&self, agent: &mut BasicAgent) {
        let journal = RecordingJournal::new(Arc::clone(&self.inner));
        journal.own(&agent.session_id());
        agent.set_journal(Some(Arc::new(journal)));
    }

    fn build(store: Option<Arc<dyn SessionStore>>) -> Self {
        let build = |this: &Weak<Inner>| Inner {
            this: this.clone(),
            store,
            options: Mutex::default(),
            sessions: Sessions::default(),
            unconfirmed: Mutex::default(),
        };
        Self { inner: Arc::new_cyclic(build) }
    }

    /// Opens a session for writing and closes it again, to detect errors before the first run: another writer has the
    /// session, it is damaged, or the store cannot be written.
    ///
    /// # Errors
    /// When the session cannot be written.
    pub async fn ready(&self, id: impl AsRef<str>) -> Result<(), SessionError> {
        let Some(store) = &self.inner.store else { return Ok(()) };
        let id = SessionId::from(id.as_ref());
        if self.inner.writes(&id) {
            return Ok(());
        }
        close(open_journal(&**store, &id).await?).await;
        Ok(())
    }

    /// Opens a stored session for writing and keeps it open: no other recorder can write it until [`close`](Self::close), or
    /// until the agents that this recorder records to it were dropped. Returns the session as it is stored.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] when it does not exist, [`SessionError::Locked`] when another writer has it; also when
    /// it cannot be read, or the recorder has no store.
    pub async fn open(&self, id: impl AsRef<str>) -> Result<Session, SessionError> {
        let id = SessionId::from(id.as_ref());
        let missing = |store: String| SessionError::NotFound { id: id.to_string(), store };
        let Some(store) = &self.inner.store else {
            return Err(missing("a recorder without a store".to_owned()));
        };
        // Opening a session creates it, so its existence is checked first.
        let stored = store.load_session(id.as_str()).await?.into_session();
        loop {
            let slot = self.inner.sessions.slot(&id);
            let _entered = self.inner.enter(&slot).await;
            if slot.is_gone() {
                continue;
            }
            self.inner.open(store, &slot, || stored).await?;
            self.inner.unconfirmed().remove(&id);
            let Some(opened) = slot.with(|tracked| tracked.snapshot()) else {
                return Err(missing(store.describe()));
            };
            return on_pool(move || opened.read()).await;
        }
    }

    /// Sets whether live events that are passed to [`on_event`](Self::on_event) are recorded; the default is `false`. A
    /// journal never contains them, because the messages contain the same text.
    #[must_use]
    pub fn include_streaming_events(self, include: bool) -> Self {
        self.inner.options.lock().unwrap_or_else(PoisonError::into_inner).streaming_events = include;
        self
    }

    /// Sets when records are flushed to the disk; the default is [`Flushing::WhenAsked`].
    #[must_use]
    pub fn with_flushing(self, flushing: Flushing) -> Self {
        self.inner.options.lock().unwrap_or_else(PoisonError::into_inner).flushing = flushing;
        self
    }

    /// Returns the store, if the recorder has one.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<dyn SessionStore>> {
        self.inner.store.as_ref()
    }

    /// Returns copies of all sessions that the recorder holds, ordered by id. Messages are shared. A session that cannot
    /// be [read back](Self::read_session) is missing, and a warning is logged.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        let slots = self.inner.sessions.slots();
        slots.iter().filter_map(|slot| logged(slot.with(|tracked| tracked.snapshot())?.read())).collect()
    }

    /// Returns a copy of a session, as [`read_session`](Self::read_session) does. `None` also for a session that cannot
    /// be read back, with a warning in the log.
    #[must_use]
    pub fn session(&self, id: impl AsRef<str>) -> Option<Session> {
        logged(self.read_session(id)).flatten()
    }

    /// Returns a copy of a session that the recorder holds; `None` if it does not hold the session.
    ///
    /// What a long run has released after a compaction is read from the store, which blocks. A session in which nothing
    /// was compacted is in memory, and so is every session of a recorder without a store.
    ///
    /// # Errors
    /// When the store cannot be read, or lacks records of the session.
    pub fn read_session(&self, id: impl AsRef<str>) -> Result<Option<Session>, SessionError> {
        let slot = self.inner.sessions.find(id.as_ref());
        slot.and_then(|slot| slot.with(|tracked| tracked.snapshot())).map(Partial::read).transpose()
    }

    /// Saves every session that the recorder holds and returns their ids. The cost is proportional to the size of the
    /// sessions. Records of a session wait while it is saved; those of others do not. A session that is being saved is
    /// saved completely, also if the returned future is dropped.
    ///
    /// # Errors
    /// The first error. The other sessions are saved, and the journal of a session that was not saved is unchanged.
    pub async fn save(&self) -> Result<Vec<SessionId>, SessionError> {
        self.inner.save_all(AfterSave::Continue).await
    }

    /// Saves every session, as [`save`](Self::save) does, and closes it, so that others can write it. When the agent
    /// continues, its session is opened again.
    ///
    /// # Errors
    /// As [`save`](Self::save). A session that could not be saved stays open.
    pub async fn close(&self) -> Result<Vec<SessionId>, SessionError> {
        self.inner.save_all(AfterSave::Close).await
    }
}

/// Returns what could be read, and logs why the rest could not.
fn logged<T>(read: Result<T, SessionError>) -> Option<T> {
    read.inspect_err(|error| tracing::warn!(%error, "a recorded session could not be read back")).ok()
}

impl Default for SessionRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SessionRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRecorder")
            .field("store", &self.inner.store)
            .field("sessions", &self.inner.sessions.slots().len())
            .finish_non_exhaustive()
    }
}

/// The last handle has been dropped. Sessions with a writer are released. A session that was only recorded in memory is
/// saved by a task, where there is a runtime.
impl Drop for Inner {
    fn drop(&mut self) {
        let Some(store) = self.store.clone() else { return };
        let mut left = Vec::new();
        for slot in self.sessions.slots() {
            let Some(tracked) = slot.take(|_| true) else { continue };
            match tracked.journal.is_some() {
                true => {
                    let session = StoredSession::new(&*store, &slot.id);
                    Release::new(session, tracked, Weak::new()).begin();
                }
                false => left.push((slot.id.clone(), tracked.into_snapshot())),
            }
        }
        if left.is_empty() {
            return;
        }
        let failed = |id: &SessionId, error: &dyn fmt::Display| {
            tracing::warn!(session = %id, %error, "a session could not be saved when its recorder was dropped");
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            for (id, _) in &left {
                failed(id, &"there is no runtime; call SessionRecorder::close");
            }
            return;
        };
        runtime.spawn(async move {
            for (id, snapshot) in left {
                let saved = match snapshot.read() {
                    Ok(session) => store.save_session(&session).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = saved {
                    failed(&id, &error);
                }
            }
        });
    }
}
