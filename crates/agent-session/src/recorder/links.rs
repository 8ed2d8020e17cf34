//! Links between the sessions of sub-agents and of their callers.

use agent_core::{AgentEvent, AgentStart, LoopId, SessionId, ToolCallId, ToolExecutionEnd, ToolName};

use super::State;
use crate::model::recording::session_of_id;
use crate::model::{LoopRecord, SpawnRef};

impl State {
    /// Returns the session of a loop: the known one, or the one that the loop's id names.
    pub(super) fn session_of(&self, loop_id: &LoopId) -> SessionId {
        if let Some(id) = self.routes.get(loop_id) {
            return id.clone();
        }
        // A session id can contain dots, so the longest matching id is used.
        let fits = |id: &&SessionId| {
            loop_id.as_str().strip_prefix(id.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        let known = self.sessions.keys().filter(fits).max_by_key(|id| id.as_str().len());
        known.cloned().unwrap_or_else(|| session_of_id(loop_id))
    }

    /// Stores the session of a loop. Copied loops of a fork remain assigned to their own session if it is known.
    pub(super) fn route(&mut self, record: &LoopRecord, id: &SessionId) {
        let known = self.routes.entry(record.loop_id.clone()).or_insert_with(|| id.clone());
        if record.session_id == *id {
            known.clone_from(id);
        }
    }

    /// Adds the links that an event contains, also to sessions that were completed.
    pub(super) fn link(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart(start) => self.link_start(start),
            AgentEvent::ToolExecutionEnd(end) => self.link_end(end),
            _ => {}
        }
    }

    fn link_start(&mut self, start: &AgentStart) {
        let Some(parent) = &start.parent_loop_id else { return };
        // A continuation was started by no call. It is in its own session, or in a fork of its parent's session.
        if start.continuation_kind.is_some() {
            return;
        }
        let parent_session = self.session_of(parent);
        if parent_session == start.session_id {
            return;
        }
        if let Some(tracked) = self.sessions.get_mut(&start.session_id) {
            tracked.changed = true;
            tracked.recording.session.parent_spawn_ref.get_or_insert_with(|| SpawnRef {
                parent_session_id: parent_session,
                parent_loop_id: parent.clone(),
                tool_call_id: ToolCallId::from(""),
                tool_name: ToolName::from(""),
            });
        }
    }

    fn link_end(&mut self, end: &ToolExecutionEnd) {
        let Some(child) = &end.child_loop_id else { return };
        let child_session = self.session_of(child);
        let parent_session = self.session_of(&end.loop_id);
        if let Some(parent) = self.sessions.get_mut(&parent_session) {
            let record = parent.recording.position(&end.loop_id);
            let links = record.and_then(|at| parent.recording.record_mut(at)).map(|r| &mut r.child_loop_refs);
            for link in links.into_iter().flatten().filter(|l| l.child_loop_id == *child) {
                link.child_session_id = child_session.clone();
            }
        }
        if child_session == parent_session {
            return;
        }
        if let Some(tracked) = self.sessions.get_mut(&child_session) {
            tracked.changed = true;
            let spawn = tracked.recording.session.parent_spawn_ref.get_or_insert_with(|| SpawnRef {
                parent_session_id: parent_session,
                parent_loop_id: end.loop_id.clone(),
                tool_call_id: ToolCallId::from(""),
                tool_name: ToolName::from(""),
            });
            if spawn.tool_call_id.as_str().is_empty() {
                spawn.tool_call_id = end.tool_call_id.clone();
                spawn.tool_name = end.tool_name.clone();
            }
        }
    }
}
