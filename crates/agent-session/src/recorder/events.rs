//! Records events in memory.

use std::sync::PoisonError;

use agent_core::{AgentEvent, SessionId};

use super::groups::session_of_group;
use super::{SessionRecorder, State, Tracked, logged};
use crate::error::SessionError;
use crate::model::recording::{Partial, Recording, record_of_start, session_of_loop};
use crate::model::{LoopStatus, RecordedEvent, Session};

impl SessionRecorder {
    /// Records an event. Events of several agents and sessions can be interleaved; those of one loop must be in order.
    ///
    /// An event of a loop that never began is dropped, except the end of a run that `before_loop` refused, which has no
    /// beginning: it is recorded if its session is known. A session that this recorder writes to its store receives its
    /// events by the journal; here they are dropped.
    pub fn on_event(&self, event: &AgentEvent) {
        let options = *self.inner.options.lock().unwrap_or_else(PoisonError::into_inner);
        if event.is_live() && !options.streaming_events {
            return;
        }
        let mut state = self.inner.lock();
        match session_of_group(event) {
            Some(_) => state.take_group(event),
            None => state.take(event),
        }
    }

    /// Saves the sessions that have no open loop, which empties their journals, and marks them for
    /// [`drain_completed`](Self::drain_completed). Returns how many sessions are marked now. A later loop of a session
    /// removes the mark and begins a new journal.
    ///
    /// # Errors
    /// The first session that could not be saved; its journal is unchanged.
    pub async fn compact_journal(&self) -> Result<usize, SessionError> {
        let opening = self.inner.opening.lock().await;
        let closed: Vec<SessionId> = {
            let state = self.inner.lock();
            let closed = state.sessions.iter().filter(|(_, t)| !t.recording.has_open_loop());
            closed.map(|(id, _)| id.clone()).collect()
        };
        for id in &closed {
            if self.inner.writes(id) {
                self.inner.save_one(id, false, &opening).await?;
            }
            if let Some(tracked) = self.inner.lock().sessions.get_mut(id) {
                tracked.completed = !tracked.recording.has_open_loop();
            }
        }
        Ok(self.inner.lock().sessions.values().filter(|t| t.completed).count())
    }

    /// Marks open loops as [`Aborted`](LoopStatus::Aborted), without an end time, and marks all sessions as completed, for
    /// [`drain_completed`](Self::drain_completed). A later event of a loop opens it again.
    pub fn flush(&self) {
        let mut state = self.inner.lock();
        for tracked in state.sessions.values_mut().filter(|t| !t.is_written()) {
            for record in &mut tracked.recording.session.loops {
                if record.is_open() {
                    record.status = LoopStatus::Aborted;
                    tracked.changed = true;
                }
            }
            tracked.completed = true;
        }
    }

    /// Returns copies of the completed sessions that have changed since they were last drained. The recorder retains the
    /// sessions, so that a later loop, or the end of the call that started a sub-agent, finds them; [`forget`](Self::forget)
    /// removes them. A session that cannot be [read back](Self::read_session) is missing, and a warning is logged.
    #[must_use]
    pub fn drain_completed(&self) -> Vec<Session> {
        let mut state = self.inner.lock();
        let drained = state.sessions.values_mut().filter(|t| t.completed && t.changed);
        let drained: Vec<Partial> = drained
            .map(|tracked| {
                tracked.changed = false;
                tracked.copy()
            })
            .collect();
        drop(state);
        drained.into_iter().filter_map(|held| logged(held.read())).collect()
    }

    /// Removes a session from memory and returns it; `None` for a session that is being written to a store, which
    /// [`close`](Self::close) closes.
    pub fn forget(&self, id: impl AsRef<str>) -> Option<Session> {
        let mut state = self.inner.lock();
        state.sessions.get(id.as_ref()).filter(|t| !t.is_written())?;
        let tracked = state.sessions.remove(id.as_ref())?;
        state.routes.retain(|_, session| *session != *id.as_ref());
        Some(tracked.recording.session)
    }

    /// Adds a loaded session, so that its next events continue it. Has no effect if the recorder already has the session.
    pub fn adopt(&self, session: impl Into<Session>) {
        let session = session.into();
        let mut state = self.inner.lock();
        let id = session.session_id.clone();
        if state.sessions.contains_key(&id) {
            return;
        }
        for record in &session.loops {
            state.route(record, &id);
        }
        state.sessions.insert(id, Tracked::new(Recording::new(session), None, false));
    }
}

impl State {
    fn take(&mut self, event: &AgentEvent) {
        let Some((id, at)) = self.loop_of(event) else {
            tracing::debug!(loop_id = %event.loop_id(), "an event of a loop that never began is not recorded");
            return;
        };
        if let Some(tracked) = self.sessions.get_mut(&id) {
            tracked.changed = true;
            tracked.completed = false;
            tracked.recording.take(at, RecordedEvent::Known(Box::new(event.clone())));
            if matches!(event, AgentEvent::AgentEnd(_)) {
                tracked.recording.settle(at);
            }
        }
        self.link(event);
    }

    /// Returns the session and the position of the event's loop. An `AgentStart` adds the loop.
    fn loop_of(&mut self, event: &AgentEvent) -> Option<(SessionId, usize)> {
        if let AgentEvent::AgentStart(start) = event {
            let record = record_of_start(start);
            let id = start.session_id.clone();
            self.routes.insert(start.loop_id.clone(), id.clone());
            let tracked = self.sessions.entry(id.clone()).or_insert_with(|| {
                let session = session_of_loop(&record, &id, start.session_origin.as_ref());
                Tracked::new(Recording::new(session), None, true)
            });
            if tracked.is_written() {
                return None;
            }
            return Some((id, tracked.recording.begin(record)));
        }
        let id = self.session_of(event.loop_id());
        let tracked = self.sessions.get_mut(&id).filter(|t| !t.is_written())?;
        if let Some(at) = tracked.recording.position(event.loop_id()) {
            return Some((id, at));
        }
        let AgentEvent::AgentEnd(end) = event else { return None };
        let session = &tracked.recording.session;
        let record = crate::model::LoopRecord::new(
            end.loop_id.clone(),
            id.clone(),
            session.agent_id.clone(),
            end.timestamp,
        );
        let at = tracked.recording.begin(record);
        self.routes.insert(end.loop_id.clone(), id.clone());
        Some((id, at))
    }
}
