//! The records that the session store received, and whether it has them.

use std::collections::BTreeMap;

use agent_core::event::NumberedEvent;
use agent_core::journal::{AppliedInput, Durability, JournalEntry};
use agent_core::run::Run;
use agent_core::{LoopId, SessionId};
use agent_session::{LoadedSession, LoopRecord, RecordedEvent, Session};

use crate::disk::Disk;
use crate::log::{Log, What};
use crate::script::StoreFault;

/// One record.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// The run after the record. A clone shares what grows.
    pub(crate) run: Run,
    pub(crate) inputs: Vec<AppliedInput>,
    pub(crate) events: Vec<NumberedEvent>,
    pub(crate) durability: Durability,
}

impl Write {
    pub(crate) fn of(entry: &JournalEntry<'_>) -> Self {
        Self {
            run: entry.run.clone(),
            inputs: entry.inputs.to_vec(),
            events: entry.run.numbered(entry.events.to_vec()),
            durability: entry.durability,
        }
    }

    /// Returns whether a session has the record: its last event or a later one, or its state if it has no event.
    fn is_in(&self, sessions: &[Session]) -> bool {
        let id = self.run.loop_id();
        if !self.events.is_empty() {
            let events = record(sessions, id).map_or(0, |record| record.events.len() as u64);
            return events >= self.run.event_count();
        }
        let mut loaded = sessions.iter().map(|session| LoadedSession::new(session.clone()));
        loaded.any(|session| session.open_run_of(id).ok().flatten().is_some_and(|run| run == self.run))
    }
}

/// The writes of all processes.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// How the next call fails.
    pub(crate) next_fault: Option<StoreFault>,
    /// The writes that were not acknowledged.
    pub(crate) open: BTreeMap<u64, Write>,
    begun: u64,
    /// The last process that wrote each session.
    pub(crate) writers: BTreeMap<SessionId, u32>,
    /// Whether a call has failed, so that the program opens the session again.
    pub(crate) failed: bool,
    /// What the store did wrong.
    pub(crate) problems: Vec<String>,
}

impl Writes {
    pub(crate) fn begin(&mut self, write: Write) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun, write);
        self.begun
    }

    /// Removes the writes whose outcome was unknown, and returns those that the sessions have.
    pub(crate) fn found_in(&mut self, sessions: &[Session]) -> Vec<Write> {
        std::mem::take(&mut self.open).into_values().filter(|write| write.is_in(sessions)).collect()
    }
}

fn record<'a>(sessions: &'a [Session], id: &LoopId) -> Option<&'a LoopRecord> {
    sessions.iter().flat_map(|session| &session.loops).find(|record| record.loop_id == *id)
}

/// Returns how the sessions differ from what was acknowledged: a record that is missing, or an event that is another one.
pub(crate) fn differences(disk: &Disk, log: &Log, sessions: &[Session]) -> Option<String> {
    let mut last: BTreeMap<&LoopId, u64> = BTreeMap::new();
    for entry in &disk.entries {
        let id = entry.run.loop_id();
        let Some(record) = record(sessions, id) else {
            return Some(format!("{id} was recorded, and the store does not have it"));
        };
        for entry in log.entries.get(entry.events.clone()).unwrap_or_default() {
            let What::Recorded(event) = &entry.what else { continue };
            last.insert(id, event.number);
            let at = usize::try_from(event.number).unwrap_or(usize::MAX).saturating_sub(1);
            match record.events.get(at).map(|stored| &stored.event) {
                None => {
                    let has = record.events.len();
                    return Some(format!(
                        "event {} of {id} was recorded, and the store has {has}",
                        event.number
                    ));
                }
                Some(RecordedEvent::Known(stored)) if **stored != event.event => {
                    return Some(format!("event {} of {id} is another one in the store", event.number));
                }
                Some(_) => {}
            }
        }
    }
    for (id, last) in last {
        let stored = record(sessions, id).map_or(0, |record| record.events.len() as u64);
        if stored > last {
            return Some(format!("{id} has {last} recorded events, and the store has {stored}"));
        }
    }
    None
}
