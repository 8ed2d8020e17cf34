//! Releases the parts of a recording that the store can read back.
//!
//! After a compaction the run does not need the messages that left its conversation. The recording drops them and the
//! events of the loop, and remembers their numbers. A whole session is assembled from both on request.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use agent_core::run::Run;
use agent_core::{AgentMessage, ExtensionMessage, MessageRef};
use serde_json::Value;

use super::Recording;
use crate::error::SessionError;
use crate::model::event_messages::address;
use crate::model::{LoopRecord, Session};

/// Reads the whole session from its store.
type Reader = Arc<dyn Fn() -> Result<Session, SessionError> + Send + Sync>;

/// What of a loop only the store has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Released {
    /// The number of its first events.
    pub(super) events: usize,
}

/// Stands at the place of a released message, so that the places of the others stay the same.
static RELEASED: LazyLock<MessageRef> =
    LazyLock::new(|| MessageRef::new(AgentMessage::from(ExtensionMessage::new("released", Value::Null))));

/// A recorded session at one moment, of which the store can have a part. It shares the recording until it is read.
pub(crate) struct Partial {
    recording: Arc<Recording>,
    reader: Option<Reader>,
}

impl Recording {
    /// Releases the parts of a run's loop, and of loops that have ended, that the run does not refer to any more. All
    /// records must be written.
    pub(crate) fn release(&mut self, run: &Run) {
        let held: BTreeSet<usize> = run
            .history()
            .entries()
            .map(agent_core::Entry::shared)
            .chain(run.open_reply())
            .chain(run.new_messages().in_memory())
            .map(address)
            .collect();
        let own = self.position(run.loop_id());
        for at in 0..self.session.loops.len() {
            let Some(record) = self.session.loops.get_mut(at) else { continue };
            // Other open loops can refer to their messages.
            if Some(at) != own && record.is_open() {
                continue;
            }
            let mut places = self.places.get_mut(&at);
            let LoopRecord { messages, other_messages, events, .. } = record;
            for message in messages.iter_mut().chain(other_messages) {
                if !MessageRef::same(message, &RELEASED) && !held.contains(&address(message)) {
                    if let Some(places) = &mut places {
                        places.remove(message);
                    }
                    *message = RELEASED.clone();
                }
            }
            if !events.is_empty() {
                self.released.entry(at).or_default().events += events.len();
                *events = Vec::new();
            }
        }
    }
}

impl Partial {
    /// `reader` reads what the recording has released.
    pub(crate) fn new(recording: Arc<Recording>, reader: Option<Reader>) -> Self {
        Self { recording, reader }
    }

    /// Returns the whole session; what was released is read from the store. Copies the session, if the recording is still
    /// shared, and blocks while it reads.
    pub(crate) fn read(self) -> Result<Session, SessionError> {
        let Self { recording, reader } = self;
        let (mut session, released) = match Arc::try_unwrap(recording) {
            Ok(Recording { session, released, .. }) => (session, released),
            Err(shared) => (shared.session.clone(), shared.released.clone()),
        };
        if released.is_empty() {
            return Ok(session);
        }
        let id = session.session_id.clone();
        let lost = |what: String| SessionError::store(format!("session {id}"), "read back", what);
        let Some(reader) = reader else { return Err(lost("its store cannot be read".to_owned())) };
        let stored = reader()?;
        for (at, released) in released {
            let Some(record) = session.loops.get_mut(at) else { continue };
            let is_same = |found: &&LoopRecord| found.loop_id == record.loop_id;
            let found = stored.loops.get(at).filter(is_same).or_else(|| stored.loops.iter().find(is_same));
            let Some(found) = found else {
                return Err(lost(format!("the store has no loop {}", record.loop_id)));
            };
            // The store can have later records than the copy.
            let events = released.events + record.events.len();
            let parts = (
                found.messages.get(..record.messages.len()),
                found.other_messages.get(..record.other_messages.len()),
                found.events.get(..events),
            );
            let (Some(messages), Some(other), Some(events)) = parts else {
                let what = format!("the store has fewer messages or events of loop {}", record.loop_id);
                return Err(lost(what));
            };
            record.messages = messages.to_vec();
            record.other_messages = other.to_vec();
            record.events = events.to_vec();
        }
        Ok(session)
    }
}
