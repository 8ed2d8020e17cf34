//! Recording: from the events of runs to sessions, in memory or in files.
//!
//! [`SessionRecorder::attach`] makes itself the agent's journal: what a run decided is on record before anything is done
//! about it, and a run that cannot be written down ends. [`SessionRecorder::new`] records in memory what
//! [`on_event`](SessionRecorder::on_event) is given.
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

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::journal::Durability;
use agent_core::{BasicAgent, LoopId, SessionId};

use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::store::SessionStore;
pub(crate) use offline::apply_offline;
use session_journal::SessionJournal;

/// Records sessions. A clone is another handle on the same recorder; when the last one goes, agents' among them, what is
/// open is saved.
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

/// When what was written is forced to the journal, so that it survives the end of the machine. The end of the process loses
/// nothing that was acknowledged either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Flushing {
    /// At the end of each turn, where a person is asked, and before a call that must not run twice.
    #[default]
    WhenAsked,
    /// Whenever the operating system does it.
    Never,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, Tracked>,
    /// Which session a loop is in.
    routes: BTreeMap<LoopId, SessionId>,
}

/// A session of a recorder.
struct Tracked {
    recording: Recording,
    /// Its files, for a session that is written as it happens.
    journal: Option<SessionJournal>,
    /// Whether it was put aside by [`SessionRecorder::compact_journal`] or [`SessionRecorder::flush`].
    completed: bool,
    /// Whether its writer is in use by a save.
    saving: bool,
    /// Whether it changed since it was last handed out.
    changed: bool,
}

impl Tracked {
    /// Whether the session is written to a store, so that its events come from the journal.
    fn is_written(&self) -> bool {
        self.journal.is_some() || self.saving
    }
}

impl SessionRecorder {
    /// A recorder in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::build(None)
    }

    /// A recorder that writes to this store what the agents do that it [records](Self::record).
    #[must_use]
    pub fn with_store(store: impl SessionStore + 'static) -> Self {
        Self::build(Some(Arc::new(store)))
    }

    /// Writes down what this agent does, from its next run on, before it does it.
    ///
    /// Nothing is opened here: a session is opened, and locked, with its first record. Where that fails, the run ends with
    /// the reason; [`ready`](Self::ready) asks beforehand.
    #[must_use]
    pub fn attach(agent: &BasicAgent, store: impl SessionStore + 'static) -> Self {
        let recorder = Self::with_store(store);
        recorder.record(agent);
        recorder
    }

    /// Writes down what this agent does, too. The recorder must have a store, else nothing is written.
    pub fn record(&self, agent: &BasicAgent) {
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

    /// Opens a session for writing and closes it again, to detect errors before the first run: another writer has it, it
    /// is damaged, the store cannot be written.
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

    /// Whether deltas and other live events that [`on_event`](Self::on_event) is given are kept; they are not unless asked
    /// for. A journal never holds them: what they say is in the messages.
    #[must_use]
    pub fn include_streaming_events(self, include: bool) -> Self {
        self.inner.options.lock().unwrap_or_else(PoisonError::into_inner).streaming_events = include;
        self
    }

    /// When what was written is forced to the journal.
    #[must_use]
    pub fn with_flushing(self, flushing: Flushing) -> Self {
        self.inner.options.lock().unwrap_or_else(PoisonError::into_inner).flushing = flushing;
        self
    }

    /// Where this recorder writes.
    #[must_use]
    pub fn store(&self) -> Option<&Arc<dyn SessionStore>> {
        self.inner.store.as_ref()
    }

    /// Copies of all sessions that the recorder holds, by id. Messages are shared.
    #[must_use]
    pub fn sessions(&self) -> Vec<Session> {
        self.inner.lock().sessions.values().map(|t| t.recording.session.clone()).collect()
    }

    /// A copy of this session.
    #[must_use]
    pub fn session(&self, id: impl AsRef<str>) -> Option<Session> {
        self.inner.lock().sessions.get(id.as_ref()).map(|t| t.recording.session.clone())
    }

    /// Saves every session that the recorder holds and returns their ids. O(size of the sessions).
    ///
    /// # Errors
    /// The first error. The other sessions are saved, and the journal keeps what could not be.
    pub async fn save(&self) -> Result<Vec<SessionId>, SessionError> {
        self.inner.save(false).await
    }

    /// As [`save`](Self::save), and closes the sessions, so that others can write them. When the agent continues, its
    /// session is opened again.
    ///
    /// # Errors
    /// As [`save`](Self::save). A session that could not be saved stays open.
    pub async fn close(&self) -> Result<Vec<SessionId>, SessionError> {
        self.inner.save(true).await
    }
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

    /// How safe an entry is made that should be as safe as this.
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
                    if let Err(error) = journal.save_on_drop(&tracked.recording.session) {
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
