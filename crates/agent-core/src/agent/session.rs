//! Who the agent is: ids, sessions, rotation (REQ-188, REQ-189, REQ-215).

use std::time::Duration;

use super::BasicAgent;
use crate::identity::{AgentId, LoopId, SessionId, SessionOrigin, Timestamp};

impl BasicAgent {
    /// The agent's id; the same for its life.
    #[must_use]
    pub fn agent_id(&self) -> AgentId {
        self.settings().agent_id.clone()
    }

    /// Uses this agent id from the next run on, for example the id of a recorded run that is replayed.
    #[must_use]
    pub fn with_agent_id(self, id: impl Into<AgentId>) -> Self {
        self.settings().agent_id = id.into();
        self
    }

    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.lock().session_id.clone()
    }

    /// Uses this session's id from the next run on.
    #[must_use]
    pub fn with_session_id(self, id: impl Into<SessionId>) -> Self {
        self.lock().session_id = id.into();
        self
    }

    /// The last loop that was begun.
    #[must_use]
    pub fn last_loop_id(&self) -> Option<LoopId> {
        self.lock().last_loop_id.clone()
    }

    /// When the last run began.
    #[must_use]
    pub fn last_active_at(&self) -> Option<Timestamp> {
        self.lock().last_active_at
    }

    /// Begins a new session: a new id, and loops counted from 1 again. The conversation stays.
    pub fn new_session(&self) -> SessionId {
        self.go_to_new_session(SessionOrigin::Explicit)
    }

    fn go_to_new_session(&self, origin: SessionOrigin) -> SessionId {
        let id = SessionId::from(self.settings().config.environment.random_id());
        let mut state = self.lock();
        state.session_id = id.clone();
        state.loop_counters.clear();
        state.last_loop_id = None;
        state.session_origin = Some(origin);
        id
    }

    /// Begins a new session when the last run began more than `threshold` ago; then its id comes back. The new session's first
    /// [`AgentStart`](crate::AgentStart) says so, and which session it was before.
    pub fn check_and_rotate(&self, threshold: Duration) -> Option<SessionId> {
        let now = self.settings().config.environment.now();
        let last = self.last_active_at()?;
        let is_old = Duration::from_millis(now.millis_since(last)) > threshold;
        is_old.then(|| {
            let (threshold_secs, previous_session_id) = (threshold.as_secs(), self.session_id());
            self.go_to_new_session(SessionOrigin::Inactivity { threshold_secs, previous_session_id })
        })
    }
}
