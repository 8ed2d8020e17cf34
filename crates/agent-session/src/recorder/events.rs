//! Records events in memory.

use std::sync::PoisonError;

use agent_core::{AgentEvent, AgentStart};

use super::groups::session_of_group;
use super::open::AfterSave;
use super::sessions::Sessions;
use super::slot::Tracked;
use super::{SessionRecorder, logged};
use crate::error::SessionError;
use crate::model::recording::{Recording, record_of_start, session_of_loop};
use crate::model::{LoopRecord, LoopStatus, RecordedEvent, Session};

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
        match session_of_group(event) {
            Some(_) => self.inner.sessions.take_group(event),
            None => self.inner.sessions.take(event),
        }
    }

    /// Saves the sessions that have no open loop, which empties their journals, and marks them for
    /// [`drain_completed`](Self::drain_completed). Returns how many sessions are marked now. A later loop of a session
    /// removes the mark and begins a new journal.
    ///
    /// # Errors
    /// The first session that could not be saved; its journal is unchanged.
    pub async fn compact_journal(&self) -> Result<usize, SessionError> {
        let mut completed = 0;
        for slot in self.inner.sessions.slots() {
            let is_closed = |tracked: &mut Tracked| !tracked.recording.has_open_loop();
            if slot.with(is_closed) != Some(true) {
                continue;
            }
            if slot.with(|tracked| tracked.is_written()) == Some(true) {
                self.inner.save_in_task(&slot, AfterSave::Continue).await?;
            }
            slot.with(|tracked| tracked.completed = !tracked.recording.has_open_loop());
        }
        for slot in self.inner.sessions.slots() {
            completed += usize::from(slot.with(|tracked| tracked.completed) == Some(true));
        }
        Ok(completed)
    }

    /// Marks open loops as [`Aborted`](LoopStatus::Aborted), without an end time, and marks all sessions as completed, for
    /// [`drain_completed`](Self::drain_completed). A later event of a loop opens it again.
    pub fn flush(&self) {
        for slot in self.inner.sessions.slots() {
            slot.with(|tracked| {
                if tracked.is_written() {
                    return;
                }
                if tracked.recording.has_open_loop() {
                    let loops = &mut tracked.recording_mut().session.loops;
                    loops.iter_mut().filter(|r| r.is_open()).for_each(|r| r.status = LoopStatus::Aborted);
                }
                tracked.completed = true;
            });
        }
    }

    /// Returns copies of the completed sessions that have changed since they were last drained. The recorder retains the
    /// sessions, so that a later loop, or the end of the call that started a sub-agent, finds them; [`forget`](Self::forget)
    /// removes them. A session that cannot be [read back](Self::read_session) is missing, and a warning is logged.
    #[must_use]
    pub fn drain_completed(&self) -> Vec<Session> {
        let drain = |tracked: &mut Tracked| {
            let is_drained = tracked.completed && tracked.changed;
            is_drained.then(|| {
                tracked.changed = false;
                tracked.snapshot()
            })
        };
        let slots = self.inner.sessions.slots();
        slots.iter().filter_map(|slot| logged(slot.with(drain)??.read())).collect()
    }

    /// Removes a session from memory and returns it; `None` for a session that is being written to a store, which
    /// [`close`](Self::close) closes.
    pub fn forget(&self, id: impl AsRef<str>) -> Option<Session> {
        let slot = self.inner.sessions.find(id.as_ref())?;
        let tracked = slot.take(|tracked| !tracked.is_written())?;
        self.inner.sessions.remove(&slot);
        self.inner.sessions.unroute_all(&tracked.recording.session);
        logged(tracked.into_snapshot().read())
    }

    /// Adds a loaded session, so that its next events continue it. Has no effect if the recorder already has the session.
    pub fn adopt(&self, session: impl Into<Session>) {
        let session = session.into();
        let slot = self.inner.sessions.slot(&session.session_id);
        if slot.with(|_| ()).is_none() {
            self.inner.sessions.route_all(&session);
            slot.with_or_new(|| Tracked::new(Recording::new(session), None, false), |_| ());
        }
    }
}

impl Sessions {
    fn take(&self, event: &AgentEvent) {
        let is_taken = match event {
            AgentEvent::AgentStart(start) => self.take_start(start, event),
            _ => self.take_in_loop(event),
        };
        match is_taken {
            true => self.link(event),
            false => {
                tracing::debug!(loop_id = %event.loop_id(), "an event of a loop that never began is not recorded");
            }
        }
    }

    /// Adds the loop that begins. Returns whether the session is recorded in memory.
    fn take_start(&self, start: &AgentStart, event: &AgentEvent) -> bool {
        let id = &start.session_id;
        self.route(&start.loop_id, id);
        let new = || session_of_loop(&record_of_start(start), id, start.session_origin.as_ref());
        self.with_new(id, new, |tracked| {
            if tracked.is_written() {
                return false;
            }
            let at = tracked.recording_mut().begin(record_of_start(start));
            take_at(tracked, at, event);
            true
        })
    }

    /// Returns whether the session has the loop and is recorded in memory. The end of a run that was refused adds the loop.
    fn take_in_loop(&self, event: &AgentEvent) -> bool {
        let id = self.session_of(event.loop_id());
        let Some(slot) = self.find(id.as_str()) else { return false };
        let taken = slot.with(|tracked| {
            if tracked.is_written() {
                return Taken::Not;
            }
            if let Some(at) = tracked.recording.position(event.loop_id()) {
                take_at(tracked, at, event);
                return Taken::Known;
            }
            let AgentEvent::AgentEnd(end) = event else { return Taken::Not };
            let agent_id = tracked.recording.session.agent_id.clone();
            let record = LoopRecord::new(end.loop_id.clone(), id.clone(), agent_id, end.timestamp);
            let at = tracked.recording_mut().begin(record);
            take_at(tracked, at, event);
            Taken::New
        });
        if taken == Some(Taken::New) {
            self.route(event.loop_id(), &id);
        }
        matches!(taken, Some(Taken::Known | Taken::New))
    }
}

/// Whether an event was recorded, and whether it added its loop.
#[derive(PartialEq, Eq)]
enum Taken {
    Not,
    Known,
    New,
}

fn take_at(tracked: &mut Tracked, at: usize, event: &AgentEvent) {
    tracked.completed = false;
    let recording = tracked.recording_mut();
    recording.take(at, RecordedEvent::Known(Box::new(event.clone())));
    if matches!(event, AgentEvent::AgentEnd(_)) {
        recording.settle(at);
    }
}
