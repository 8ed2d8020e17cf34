//! Groups of parallel loops in the sessions of a recorder.

use agent_core::{AgentEvent, ParallelLoopStart, SessionId};

use super::sessions::Sessions;
use super::slot::Tracked;
use crate::model::Session;

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

impl Sessions {
    /// Stores the session of an announced group's loops.
    pub(super) fn route_group(&self, event: &AgentEvent) {
        let AgentEvent::ParallelLoopStart(start) = event else { return };
        for loop_id in &start.loop_ids {
            self.route(loop_id, &start.session_id);
        }
    }

    /// Records an event of a group in memory.
    pub(super) fn take_group(&self, event: &AgentEvent) {
        let Some(id) = session_of_group(event) else { return };
        self.route_group(event);
        let take = |tracked: &mut Tracked| {
            if !tracked.is_written() {
                tracked.completed = false;
                tracked.recording_mut().take_group(event);
            }
        };
        if let AgentEvent::ParallelLoopStart(start) = event {
            self.with_new(id, || session_of_start(start), take);
        } else if let Some(slot) = self.find(id.as_str()) {
            slot.with(take);
        }
    }
}
