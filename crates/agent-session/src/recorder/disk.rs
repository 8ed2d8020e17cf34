//! The files of a session that is being written.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use agent_core::journal::{GroupEntry, JournalEntry};
use agent_core::run::Run;
use agent_core::{AgentEvent, Entry, History, LoopId, SessionId};

use super::known::KnownEnds;
use super::recording::{Recording, record_of_setup, session_of_loop};
use crate::error::SessionError;
use crate::model::{LoopBase, LoopStatus, OpenRun, RecordedEvent, Session};
use crate::store::JsonStore;
use crate::store::journal::{JournalFile, Line};
use crate::store::lock::WriteLock;

/// A lock, a journal, and what the journal knows of the conversation.
pub(super) struct Disk {
    pub(super) journal: JournalFile,
    /// The conversations of recent loops, as their last records left them.
    known: KnownEnds,
    /// Let go last, after everything is written.
    _lock: WriteLock,
}

/// What was written, for whoever has to flush it.
pub(super) struct Written {
    pub(super) file: Arc<File>,
    pub(super) path: PathBuf,
}

impl Disk {
    /// Opens a session for writing and takes over what is there.
    pub(super) fn open(store: &JsonStore, id: &SessionId) -> Result<(Self, Option<Recording>), SessionError> {
        let lock = store.lock(id.as_str())?;
        let recording = match store.read(id.as_str()) {
            Ok(loaded) => {
                let mut session = loaded.into_session();
                // Nobody else writes it, so nobody drives its branches.
                for record in session.loops.iter_mut().filter(|r| r.group.is_some()) {
                    if record.status == LoopStatus::Running {
                        record.status = LoopStatus::Interrupted;
                    }
                }
                // What the journal holds goes into the file, so that every journal is written by one process.
                store.replace(&session)?;
                Some(Recording::new(session))
            }
            Err(SessionError::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let journal = JournalFile::start(store.journal_of(id.as_str())?)?;
        let mut known = KnownEnds::default();
        if let Some(session) = recording.as_ref().map(|r| &r.session)
            && let Some(head) = session.head_at(session.loops.len())
            && let Some(record) = session.loops.get(head)
            // A conversation that cannot be folded is not gone on from: the next loop writes its own beginning.
            && let Ok(fold) = session.fold_at(head)
        {
            known.note(&record.loop_id, fold.history().clone());
        }
        Ok((Self { journal, known, _lock: lock }, recording))
    }

    /// Writes one entry: into the journal, and into the recording.
    pub(super) fn append(
        &mut self,
        recording: &mut Recording,
        entry: &JournalEntry<'_>,
    ) -> Result<Written, SessionError> {
        let setup = entry.run.setup();
        let known_at = recording.position(&setup.loop_id).filter(|at| !recording.is_announced(*at));
        let at = match known_at {
            Some(at) => at,
            None => {
                let base = self.base(recording, entry.run, entry.events);
                let mut record = record_of_setup(setup, entry.now);
                record.base = Some(base);
                recording.begin_run(record)
            }
        };
        let has_setup =
            matches!(recording.record(at).and_then(|r| r.open_run.as_ref()), Some(OpenRun::Known { .. }));
        let (own, other) =
            recording.record(at).map_or((0, 0), |r| (r.messages.len(), r.other_messages.len()));
        let events: Vec<RecordedEvent> = entry
            .events
            .iter()
            .filter(|e| !e.is_live())
            .map(|e| RecordedEvent::Known(Box::new(e.clone())))
            .collect();
        for event in &events {
            recording.take(at, event.clone());
        }
        recording.stand(at, entry.run);
        let number = recording.session.journal_records.saturating_add(1);
        if let Some((session, record, places)) = recording.view(at) {
            let light = match &record.open_run {
                Some(OpenRun::Known { light, .. }) => Some(&**light),
                _ => None,
            };
            let line = Line {
                number,
                at: entry.now,
                loop_id: &setup.loop_id,
                setup: (known_at.is_none() || !has_setup).then_some(setup),
                base: record.base.as_ref().filter(|_| known_at.is_none()),
                input: entry.input,
                own: record.messages.get(own..).unwrap_or_default(),
                other: record.other_messages.get(other..).unwrap_or_default(),
                events: &events,
                light,
            };
            self.journal.append(&line, places, session)?;
        }
        recording.session.journal_records = number;
        self.known.note(&setup.loop_id, entry.run.history().clone());
        if entry.run.ended().is_some() {
            recording.settle(at);
        }
        Ok(Written { file: self.journal.file(), path: self.journal.path().to_owned() })
    }

    /// What was there before the loop: as much as the session has of it, and the rest in full.
    fn base(&self, recording: &Recording, run: &Run, events: &[AgentEvent]) -> LoopBase {
        let history = run.history();
        // Each message that the start says is one unit of the history.
        let said =
            events.iter().filter(|e| matches!(e, AgentEvent::MessageEnd { superseded: false, .. })).count();
        let before = history.unit_count().saturating_sub(said);
        // A conversation begins with that of an earlier loop.
        let own = recording.position(&run.setup().loop_id).unwrap_or(usize::MAX);
        let earlier = |id: &LoopId| recording.position(id).is_some_and(|at| at < own);
        let nothing = History::new();
        let (after, known) = match self.known.closest(history, earlier) {
            Some((loop_id, known)) => (Some(loop_id.clone()), known),
            None => (None, &nothing),
        };
        let mut shared = history.shared_units(known).min(before);
        if shared < before && shared < known.unit_count() {
            // Other objects may still be the same messages: the session was loaded, the agent was not.
            let pairs = history.units().zip(known.units()).take(before);
            shared = pairs.take_while(|(a, b)| a.entries() == b.entries()).count();
        }
        let keep = history.units().take(shared).map(|u| u.entries().len()).sum();
        let added: Vec<Entry> =
            history.units().take(before).skip(shared).flat_map(|u| u.entries().iter().cloned()).collect();
        LoopBase { after_loop: after, keep, added }
    }

    /// Writes that a group was announced, or how it ended.
    pub(super) fn append_group(
        &mut self,
        recording: &mut Recording,
        entry: &GroupEntry<'_>,
    ) -> Result<Written, SessionError> {
        let number = recording.session.journal_records.saturating_add(1);
        self.journal.append_group(number, entry.now, entry.event, &recording.session)?;
        recording.take_group(entry.event);
        recording.session.journal_records = number;
        Ok(Written { file: self.journal.file(), path: self.journal.path().to_owned() })
    }

    /// Writes the readable file and empties the journal.
    pub(super) fn save(&mut self, store: &JsonStore, session: &Session) -> Result<PathBuf, SessionError> {
        let path = store.replace(session)?;
        self.journal.clear()?;
        Ok(path)
    }
}

/// The session that a first record opens.
pub(super) fn session_of_entry(entry: &JournalEntry<'_>) -> Session {
    let record = record_of_setup(entry.run.setup(), entry.now);
    session_of_loop(&record, &record.session_id)
}
