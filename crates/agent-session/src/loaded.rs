//! Sessions loaded from a store, and the open runs in them.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_session::{JsonStore, Session};
//! # let dir = tempfile::tempdir()?;
//! let store = JsonStore::open(dir.path())?;
//! store.save_session(&Session::new("s-1".into(), "agent".into(), Timestamp(1)))?;
//! let loaded = store.load_session("s-1")?;
//! assert_eq!(loaded.torn_bytes(), 0);
//! assert!(loaded.open_run()?.is_none());
//! assert_eq!(loaded.root_loops().count(), 0);
//! # Ok::<(), agent_session::BoxError>(())
//! ```

use std::ops::Deref;

use agent_core::journal::RecordedLoop;
use agent_core::run::{ChildEnd, Run};
use agent_core::{AgentEvent, DeferredCall, LoopId};

use crate::error::SessionError;
use crate::model::{LoopRecord, LoopStatus, OpenRun, RecordedEvent, Session};

/// A session from a store. It is a [`Session`] and knows in what state it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSession {
    session: Session,
    torn_bytes: usize,
}

impl LoadedSession {
    /// Creates a loaded session, for stores.
    #[must_use]
    pub fn new(mut session: Session) -> Self {
        session.share_groups();
        Self { session, torn_bytes: 0 }
    }

    /// Sets the number of bytes of an unfinished last record that was dropped.
    #[must_use]
    pub fn with_torn_bytes(mut self, bytes: usize) -> Self {
        self.torn_bytes = bytes;
        self
    }

    /// Marks running loops as [`Interrupted`](LoopStatus::Interrupted). A store calls this when no writer has the session.
    #[must_use]
    pub fn interrupted(mut self) -> Self {
        self.mark_interrupted();
        self
    }

    /// Returns the size in bytes of an unfinished last line of the journal, which was dropped; 0 if there was none. Its
    /// writer was killed while writing it, and the run had not acted on it.
    #[must_use]
    pub fn torn_bytes(&self) -> usize {
        self.torn_bytes
    }

    /// Returns the session without its load state.
    #[must_use]
    pub fn into_session(self) -> Session {
        self.session
    }

    pub(crate) fn has_running_loop(&self) -> bool {
        self.session.loops.iter().any(|r| matches!(r.status, LoopStatus::Running | LoopStatus::Pending))
    }

    pub(crate) fn mark_interrupted(&mut self) {
        for record in &mut self.session.loops {
            if matches!(record.status, LoopStatus::Running | LoopStatus::Pending) {
                record.status = LoopStatus::Interrupted;
            }
        }
    }

    /// Returns the open run of the [head](Session::head), in the state of its last record; `None` if the head is over. An
    /// open run was cut off or waits for an answer, and can be resumed.
    ///
    /// # Errors
    /// [`SessionError::Resume`] when the state was written by a version that this one cannot read, or does not match the
    /// events. The session can be used without it: [`Session::history`] closes the loop.
    pub fn open_run(&self) -> Result<Option<Run>, SessionError> {
        match self.session.head_position() {
            Some(head) => open_run_at(&self.session, head),
            None => Ok(None),
        }
    }

    /// Returns the open run of a loop, as [`open_run`](Self::open_run) does, for example of a branch that was cut off.
    /// `None` also when the loop does not exist.
    ///
    /// # Errors
    /// As [`open_run`](Self::open_run).
    pub fn open_run_of(&self, loop_id: impl AsRef<str>) -> Result<Option<Run>, SessionError> {
        match self.session.position(loop_id.as_ref()) {
            Some(at) => open_run_at(&self.session, at),
            None => Ok(None),
        }
    }

    /// Returns what the session has recorded about a loop.
    pub(crate) fn recorded_loop(&self, loop_id: &LoopId) -> Result<RecordedLoop, SessionError> {
        let Some(at) = self.session.position(loop_id.as_str()) else { return Ok(RecordedLoop::Absent) };
        // A branch is announced before it starts.
        let is_announced = |r: &LoopRecord| r.events.is_empty() && r.open_run.is_none() && r.ended.is_none();
        if self.session.loops.get(at).is_some_and(is_announced) {
            return Ok(RecordedLoop::Absent);
        }
        if let Some(run) = open_run_at(&self.session, at)? {
            return Ok(RecordedLoop::Open(Box::new(run)));
        }
        let Some((record, ended)) =
            self.session.loops.get(at).and_then(|record| Some((record, record.ended.clone()?)))
        else {
            return Ok(RecordedLoop::Unknown);
        };
        let last = record.events.iter().rev().find_map(|event| match &event.event {
            RecordedEvent::Known(event) => match &**event {
                AgentEvent::AgentEnd(end) => Some(end),
                _ => None,
            },
            RecordedEvent::Foreign(_) => None,
        });
        let tool_usage = last.map(|end| end.tool_usage).unwrap_or_default();
        let spent = last.and_then(|end| end.spent.as_deref().copied());
        let turns = u32::try_from(record.turns.len()).unwrap_or(u32::MAX);
        let history = self.session.fold_at(at)?.history().clone();
        let end = ChildEnd::new(loop_id.clone(), ended, history, turns, record.usage);
        let end = end.with_record(record.messages.clone().into(), record.usage, tool_usage);
        Ok(RecordedLoop::Ended(Box::new(end.with_spent(spent))))
    }

    /// Returns the deferred calls of the conversation that have no result yet, oldest first.
    ///
    /// # Errors
    /// When the events of a loop do not make a conversation.
    pub fn deferred(&self) -> Result<Vec<DeferredCall>, SessionError> {
        match self.open_run() {
            Ok(Some(run)) => Ok(run.deferred()),
            // A run whose state cannot be read is closed like a crash.
            Ok(None) | Err(SessionError::Resume { .. }) => Ok(self.session.history()?.deferred()),
            Err(error) => Err(error),
        }
    }

    /// Returns the id of the loop that the conversation continues from: the [head](Session::head).
    #[must_use]
    pub fn last_loop_id(&self) -> Option<&LoopId> {
        self.session.head().map(|r| &r.loop_id)
    }
}

/// Returns the open run of the loop at this position.
pub(crate) fn open_run_at(session: &Session, at: usize) -> Result<Option<Run>, SessionError> {
    let Some(record) = session.loops.get(at) else { return Ok(None) };
    let failed = |source| SessionError::Resume { loop_id: record.loop_id.clone(), source };
    match &record.open_run {
        None => Ok(None),
        Some(OpenRun::Foreign(_)) => {
            Err(failed("its state was written by another version of looptree".into()))
        }
        Some(OpenRun::Known { setup, light }) => {
            let fold = session.fold_at(at)?;
            let run = Run::restore((**setup).clone(), (**light).clone(), &fold);
            run.map(Some).map_err(|e| failed(Box::new(e)))
        }
    }
}

impl Deref for LoadedSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl From<LoadedSession> for Session {
    fn from(loaded: LoadedSession) -> Self {
        loaded.session
    }
}
