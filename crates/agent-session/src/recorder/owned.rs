//! The sessions that one agent's journal has written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agent_core::run::{Run, RunSetup};
use agent_core::{AgentId, LoopId, SessionId};

use super::Inner;
use super::slot::{Owner, Slot, Tracked};
use crate::error::SessionError;

/// Who writes a record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Writing<'a> {
    agent: Option<&'a AgentId>,
    /// For a sub-agent, the loop whose call started it.
    parent: Option<&'a LoopId>,
}

impl<'a> Writing<'a> {
    pub(super) fn of(setup: &'a RunSetup) -> Self {
        let is_child = setup.depth > 0 || setup.continuation.is_none();
        let parent = setup.parent_loop_id.as_ref().filter(|_| is_child);
        Self { agent: Some(&setup.agent_id), parent }
    }
}

/// The sessions of an agent and of its sub-agents that are open.
pub(super) struct Owned {
    owner: Arc<Owner>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sessions: BTreeMap<SessionId, Session>,
    /// The sub-agents whose last record could not be written.
    failed: BTreeMap<SessionId, Failed>,
}

struct Session {
    slot: Weak<Slot>,
    /// The loop whose call started the sub-agent; `None` for a session of the agent.
    parent: Option<LoopId>,
}

struct Failed {
    parent: LoopId,
    error: String,
}

impl Default for Owned {
    fn default() -> Self {
        Self { owner: Arc::new(Owner), state: Mutex::default() }
    }
}

impl Owned {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an open session.
    pub(super) fn add(&self, slot: &Arc<Slot>, writing: &Writing<'_>) {
        if slot.with(|tracked| tracked.own(&self.owner)) == Some(true) {
            let parent = writing.parent.cloned();
            self.state().sessions.insert(slot.id.clone(), Session { slot: Arc::downgrade(slot), parent });
        }
    }

    /// Returns whether the agent or a sub-agent has written the session.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.state().sessions.contains_key(id)
    }

    /// Remembers that a record of a sub-agent could not be written.
    pub(super) fn fail(&self, run: &Run, error: &SessionError) {
        if let Some(parent) = Writing::of(run.setup()).parent {
            let failed = Failed { parent: parent.clone(), error: error.to_string() };
            self.state().failed.insert(run.setup().session_id.clone(), failed);
        }
    }

    /// Checks that all sub-agents of a run are recorded, so that it does not complete without a part of its record.
    ///
    /// # Errors
    /// The error of the sub-agent that is not. It is returned once: the run ends with it, and a later record of the
    /// sub-agent can succeed.
    pub(super) fn check(&self, run: &Run) -> Result<(), SessionError> {
        let mut state = self.state();
        if state.failed.is_empty() {
            return Ok(());
        }
        state.failed.remove(&run.setup().session_id);
        let failed = state.failed.iter().find(|(_, failed)| failed.parent == *run.loop_id());
        let Some(id) = failed.map(|(id, _)| id.clone()) else { return Ok(()) };
        match state.failed.remove(&id) {
            Some(failed) => {
                let what = format!("session {id} of a sub-agent");
                Err(SessionError::store(what, "recorded", failed.error))
            }
            None => Ok(()),
        }
    }

    /// Releases the session of a sub-agent, unless one of its loops is open.
    pub(super) fn release_child(&self, inner: &Inner, slot: &Arc<Slot>) {
        let mut state = self.state();
        if state.sessions.get(&slot.id).is_some_and(|session| session.parent.is_some())
            && slot.with(let_go_if_idle) == Some(true)
        {
            state.sessions.remove(&slot.id);
            drop(state);
            inner.release(slot);
        }
    }

    /// Releases the sessions of the sub-agents that calls of a loop started.
    pub(super) fn release_children(&self, inner: &Inner, parent: &LoopId) {
        self.release_where(inner, |_, session| session.parent.as_ref() == Some(parent), let_go_if_idle);
    }

    /// Releases the other sessions of the agent that writes this one, and returns them.
    pub(super) fn release_others(
        &self,
        inner: &Inner,
        id: &SessionId,
        writing: &Writing<'_>,
    ) -> Vec<SessionId> {
        let Writing { agent: Some(agent), parent: None } = writing else { return Vec::new() };
        let is_other = |other: &SessionId, session: &Session| other != id && session.parent.is_none();
        self.release_where(inner, is_other, |tracked| {
            tracked.recording.session.agent_id == **agent && let_go_if_idle(tracked)
        })
    }

    /// Releases those of these sessions that `let_go` marks as unneeded, and returns them.
    fn release_where(
        &self,
        inner: &Inner,
        is_meant: impl Fn(&SessionId, &Session) -> bool,
        let_go: impl Fn(&mut Tracked) -> bool,
    ) -> Vec<SessionId> {
        let mut released = Vec::new();
        self.state().sessions.retain(|id, session| {
            if !is_meant(id, session) {
                return true;
            }
            let Some(slot) = session.slot.upgrade() else { return false };
            let is_unneeded = slot.with(&let_go) != Some(false);
            if is_unneeded {
                released.push(slot);
            }
            !is_unneeded
        });
        released.iter().for_each(|slot| inner.release(slot));
        released.into_iter().map(|slot| slot.id.clone()).collect()
    }

    /// Releases all sessions that no other journal writes. The journal is being dropped.
    pub(super) fn release_all(&mut self, inner: &Inner) {
        self.owner = Arc::new(Owner);
        let sessions = std::mem::take(&mut self.state().sessions);
        for slot in sessions.into_values().filter_map(|session| session.slot.upgrade()) {
            slot.with(|tracked| tracked.unneeded = tracked.is_written() && !tracked.has_owner());
            inner.release(&slot);
        }
    }
}

/// Marks a session without an open loop as unneeded, and returns whether it is.
fn let_go_if_idle(tracked: &mut Tracked) -> bool {
    tracked.unneeded = tracked.is_written() && !tracked.recording.has_open_loop();
    tracked.unneeded
}
