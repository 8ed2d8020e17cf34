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
mod recent_histories;
mod session_journal;
mod write;

#[cfg(test)]
mod tests;

use agent_core::compat::SeedSetters as _;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::journal::Durability;
use agent_core::{BasicAgent, LoopId, SessionId};

use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::{Partial, Recording};
use crate::store::{SessionReader, SessionStore};
pub(crate) use offline::{apply_offline, complete_offline};
use session_journal::SessionJournal;

/// Records sessions. Clones are handles to the same recorder. When the last handle is dropped, including those of agents,
/// open sessions are saved only as far as their store can do that without waiting, so call [`close`](Self::close) before.
#[derive(Clone)]
pub struct SessionRecorder {
    inner: Arc<Inner>,
}

struct Inner {
    store: Option<Arc<dyn SessionStore>>,
    options: Mutex<Options>,
    state: Mutex<State>,
    /// Held while a session is opened, so that one recorder does not lock itself out.
    opening: tokio::sync::Mutex<()>,
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

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, Tracked>,
    /// The session of each known loop.
    routes: BTreeMap<LoopId, SessionId>,
}

/// A session of a recorder.
struct Tracked {
    recording: Recording,
    /// The journal, for a session that is written to the store.
    journal: Option<SessionJournal>,
    /// Whether it was completed by [`SessionRecorder::compact_journal`] or [`SessionRecorder::flush`].
    completed: bool,
    /// Whether its writer is in use by a save.
    saving: bool,
    /// Whether it changed since it was last handed out.
    changed: bool,
    /// Reads what the recording has released.
    reader: Option<SessionReader>,
}

impl Tracked {
    fn new(recording: Recording, journal: Option<SessionJournal>, changed: bool) -> Self {
        let reader = journal.as_ref().and_then(|journal| journal.writer.reader());
        Self { recording, journal, completed: false, saving: false, changed, reader }
    }

    fn copy(&self) -> Partial {
        self.recording.copy(self.reader.clone())
    }

    /// Whether the session is written to a store, so that its events come from the journal.
    fn is_written(&self) -> bool {
        self.journal.is_some() || self.saving
    }
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
        agent.set_journal(Some(Arc::new(write::RecordingJournal(Arc::clone(&self.inner)))));
    }

    fn build(store: Option<Arc<dyn SessionStore>>) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                options: Mutex::default(),
                state: Mutex::default(),
                opening: tokio::sync::Mutex::default(),
            }),
        }
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
        SessionJournal::open(&**store, &id).await.map(drop)
    }

    /// Opens a stored session for writing and keeps it open: until [`close`](Self::close) no other recorder can write it.
    /// Returns the session as it is stored.
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
        write::RecordingJournal(Arc::clone(&self.inner)).open(store, &id, stored).await?;
        self.session(&id).ok_or_else(|| missing(store.describe()))
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
        let held: Vec<Partial> = self.inner.lock().sessions.values().map(Tracked::copy).collect();
        held.into_iter().filter_map(|held| logged(held.read())).collect()
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
        let held = self.inner.lock().sessions.get(id.as_ref()).map(Tracked::copy);
        held.map(Partial::read).transpose()
    }

    /// Saves every session that the recorder holds and returns their ids. The cost is proportional to the size of the
    /// sessions.
    ///
    /// # Errors
    /// The first error. The other sessions are saved, and the journal of a session that was not saved is unchanged.
    pub async fn save(&self) -> Result<Vec<SessionId>, SessionError> {
        self.inner.save(false).await
    }

    /// Saves every session, as [`save`](Self::save) does, and closes it, so that others can write it. When the agent
    /// continues, its session is opened again.
    ///
    /// # Errors
    /// As [`save`](Self::save). A session that could not be saved stays open.
    pub async fn close(&self) -> Result<Vec<SessionId>, SessionError> {
        self.inner.save(true).await
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
            .field("sessions", &self.inner.lock().sessions.len())
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the durability of an entry that asks for `wanted`.
    fn durability(&self, wanted: Durability) -> Durability {
        match self.options.lock().unwrap_or_else(PoisonError::into_inner).flushing {
            Flushing::WhenAsked => wanted,
            Flushing::Never => Durability::Buffered,
        }
    }

    async fn save(&self, close: bool) -> Result<Vec<SessionId>, SessionError> {
        if self.store.is_none() {
            return Ok(Vec::new());
        }
        let opening = self.opening.lock().await;
        let ids: Vec<SessionId> = self.lock().sessions.keys().cloned().collect();
        let (mut saved, mut failed) = (Vec::new(), None);
        for id in ids {
            match self.save_one(&id, close, &opening).await {
                Ok(()) => saved.push(id),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(saved), Err)
    }
}

/// The last handle has been dropped. Sessions with a writer are saved here. A session that was only recorded in memory is
/// saved by a task, where there is a runtime.
impl Drop for Inner {
    fn drop(&mut self) {
        let Some(store) = self.store.clone() else { return };
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let failed = |id: &SessionId, error: &dyn fmt::Display| {
            tracing::warn!(session = %id, %error, "a session could not be saved when its recorder was dropped");
        };
        let mut left = Vec::new();
        for (id, tracked) in std::mem::take(&mut state.sessions) {
            match tracked.journal {
                Some(mut journal) => {
                    let session = tracked.recording.copy(tracked.reader).read();
                    if let Err(error) = session.and_then(|session| journal.save_on_drop(&session)) {
                        failed(&id, &error);
                    }
                }
                None => left.push((id, tracked.recording.session)),
            }
        }
        if left.is_empty() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            for (id, _) in &left {
                failed(id, &"there is no runtime; call SessionRecorder::close");
            }
            return;
        };
        runtime.spawn(async move {
            for (id, session) in left {
                if let Err(error) = store.save_session(&session).await {
                    tracing::warn!(session = %id, %error, "a session could not be saved when its recorder was dropped");
                }
            }
        });
    }
}
