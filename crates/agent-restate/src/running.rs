//! The sessions that this process drives at this moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::CancellationToken;
use agent_core::event::NumberedEvent;

/// Events that the driver appends to, and that readers in the same process see.
pub(crate) type SharedEvents = Arc<Mutex<Vec<NumberedEvent>>>;

/// The sessions that this process drives.
pub(crate) type Running = Arc<Mutex<BTreeMap<String, RunningSession>>>;

/// A session that this process drives at this moment.
pub(crate) struct RunningSession {
    pub(crate) invocation: String,
    /// Tells the attempt of the invocation from the one that replaces it.
    pub(crate) attempt: String,
    pub(crate) cancel: CancellationToken,
    /// The number of the first event of `events`.
    pub(crate) first: u64,
    /// The events that the engine has recorded and the state does not have yet.
    pub(crate) events: SharedEvents,
}

/// Removes the session from those that this process drives, also if the invocation is cut off.
pub(crate) struct Registered {
    running: Running,
    session: String,
    attempt: String,
}

impl Registered {
    /// Adds the session to those that this process drives.
    pub(crate) fn enter(all: &Running, session: &str, running: RunningSession) -> Self {
        let registered =
            Self { running: Arc::clone(all), session: session.to_owned(), attempt: running.attempt.clone() };
        all.lock().unwrap_or_else(PoisonError::into_inner).insert(session.to_owned(), running);
        registered
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.get(&self.session).is_some_and(|session| session.attempt == self.attempt) {
            running.remove(&self.session);
        }
    }
}
