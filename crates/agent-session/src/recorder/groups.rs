//! Groups of parallel loops in the sessions of a recorder.

use agent_core::{AgentEvent, ParallelLoopStart, SessionId};

use super::{State, Tracked};
use crate::model::Session;
use crate::model::recording::Recording;

/// Returns the session of a group's event; `None` for any other event.
pub(super) fn session_of_group(event: &AgentEvent) -> Option<&SessionId> {
    match event {
        AgentEvent::ParallelLoopStart(start) => Some(&start.session_id),
        AgentEvent::ParallelLoopEnd(end) => Some(&end.session_id),
        _ => None,
    }
}

/// Creates the session of an announced group if no earlier event did.
pub(super) fn session_of_start(start: &ParallelLoopStart) -> Session {
    Session::new(start.session_id.clone(), start.agent_id.clone(), start.timestamp)
}

impl State {
    /// Stores the session of an announced group's loops.
    pub(super) fn route_group(&mut self, start: &ParallelLoopStart, id: &SessionId) {
        self.routes.extend(start.loop_ids.iter().map(|loop_id| (loop_id.clone(), id.clone())));
    }

    /// Records an event of a group in memory.
    pub(super) fn take_group(&mut self, event: &AgentEvent) {
        let Some(id) = session_of_group(event).cloned() else { return };
        if let AgentEvent::ParallelLoopStart(start) = event {
            self.route_group(start, &id);
            let new = || Tracked::new(Recording::new(session_of_start(start)), None, true);
            self.sessions.entry(id.clone()).or_insert_with(new);
        }
        if let Some(tracked) = self.sessions.get_mut(&id).filter(|t| !t.is_written()) {
            tracked.changed = true;
            tracked.completed = false;
            tracked.recording.take_group(event);
        }
    }
}
