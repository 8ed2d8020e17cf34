//! Links between the sessions of sub-agents and of their callers.

use agent_core::{AgentEvent, AgentStart, LoopId, SessionId, ToolCallId, ToolExecutionEnd, ToolName};

use super::sessions::Sessions;
use super::slot::Slot;
use crate::model::SpawnRef;

impl Sessions {
    /// Adds the links that an event contains, also to sessions that were completed.
    pub(super) fn link(&self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart(start) => self.link_start(start),
            AgentEvent::ToolExecutionEnd(end) => {
                if let Some(child) = self.link_end(end)
                    && let Some(slot) = self.find(child.as_str())
                {
                    self.link_child(&slot, end);
                }
            }
            _ => {}
        }
    }

    /// Stores the caller of a loop in the loop's session.
    pub(super) fn link_start(&self, start: &AgentStart) {
        let (Some(caller), Some(slot)) = (self.caller_of(start), self.find(start.session_id.as_str())) else {
            return;
        };
        slot.with(|tracked| {
            if tracked.recording.session.parent_spawn_ref.is_none() {
                tracked.recording_mut().session.parent_spawn_ref = Some(caller);
            }
        });
    }

    /// Returns the caller of a loop that a call started in a session of its own.
    pub(super) fn caller_of(&self, start: &AgentStart) -> Option<SpawnRef> {
        let parent = start.parent_loop_id.as_ref()?;
        // A continuation was started by no call. It is in its own session, or in a fork of its parent's session.
        if start.continuation_kind.is_some() {
            return None;
        }
        let parent_session = self.session_of(parent);
        (parent_session != start.session_id).then(|| spawned_by(parent_session, parent))
    }

    /// Stores the session of a sub-agent in the loop of its caller. Returns the session if it is another one.
    pub(super) fn link_end(&self, end: &ToolExecutionEnd) -> Option<SessionId> {
        let child = end.child_loop_id.as_ref()?;
        let child_session = self.session_of(child);
        let parent_session = self.session_of(&end.loop_id);
        if let Some(parent) = self.find(parent_session.as_str()) {
            parent.with(|parent| {
                let Some(at) = parent.recording.position(&end.loop_id) else { return };
                let is_other = parent.recording.record(at).is_some_and(|record| {
                    let mut links = record.child_loop_refs.iter();
                    links.any(|l| l.child_loop_id == *child && l.child_session_id != child_session)
                });
                if !is_other {
                    return;
                }
                let links = parent.recording_mut().record_mut(at).map(|r| &mut r.child_loop_refs);
                for link in links.into_iter().flatten().filter(|l| l.child_loop_id == *child) {
                    link.child_session_id = child_session.clone();
                }
            });
        }
        (child_session != parent_session).then_some(child_session)
    }

    /// Stores the call that started a sub-agent in the session of the sub-agent.
    pub(super) fn link_child(&self, child: &Slot, end: &ToolExecutionEnd) {
        let parent_session = self.session_of(&end.loop_id);
        child.with(|tracked| {
            let known = tracked.recording.session.parent_spawn_ref.as_ref();
            if known.is_some_and(|spawn| !spawn.tool_call_id.as_str().is_empty()) {
                return;
            }
            let session = &mut tracked.recording_mut().session;
            let spawn =
                session.parent_spawn_ref.get_or_insert_with(|| spawned_by(parent_session, &end.loop_id));
            spawn.tool_call_id = end.tool_call_id.clone();
            spawn.tool_name = end.tool_name.clone();
        });
    }
}

/// The link to a loop whose call is not known yet.
fn spawned_by(session: SessionId, parent: &LoopId) -> SpawnRef {
    SpawnRef {
        parent_session_id: session,
        parent_loop_id: parent.clone(),
        tool_call_id: ToolCallId::from(""),
        tool_name: ToolName::from(""),
    }
}
