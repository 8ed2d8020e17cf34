//! The journal of a session that is being written.

use agent_core::journal::{Durability, GroupEntry, JournalEntry};
use agent_core::run::Run;
use agent_core::{AgentEvent, Entry, History, LoopId, SessionId};

use super::recent_histories::RecentHistories;
use crate::error::SessionError;
use crate::model::recording::{Recording, record_of_setup, session_of_loop};
use crate::model::stored::Content;
use crate::model::{LoopBase, OpenRun, RecordedEvent, Session};
use crate::store::journal::{Line, LineWriter};
use crate::store::{PendingWrite, SessionRecord, SessionStore, SessionWriter, on_pool};

/// The writer of a session, and the conversations to which its records refer.
pub(super) struct SessionJournal {
    pub(super) writer: Box<dyn SessionWriter>,
    lines: LineWriter,
    /// The conversations of recent loops, as their last records left them.
    known: RecentHistories,
}

impl SessionJournal {
    /// Opens a session for writing and returns its stored state.
    pub(super) async fn open<S: SessionStore + ?Sized>(
        store: &S,
        id: &SessionId,
    ) -> Result<(Self, Option<Recording>), SessionError> {
        let (writer, found) = store.write_session(id.as_str()).await?;
        let (recording, known) = match found {
            Some(session) => on_pool(move || Ok(begin(session))).await?,
            None => (None, RecentHistories::default()),
        };
        Ok((Self { writer, lines: LineWriter::default(), known }, recording))
    }

    /// Applies an entry to the recording and appends its record to the journal.
    pub(super) fn append(
        &mut self,
        recording: &mut Recording,
        entry: &JournalEntry<'_>,
        durability: Durability,
    ) -> Result<Option<PendingWrite>, SessionError> {
        let setup = entry.run.setup();
        let known_at = recording.position(&setup.loop_id).filter(|at| !recording.is_announced(*at));
        let at = match known_at {
            Some(at) => {
                let new = entry.events.iter().filter(|e| !e.is_live()).count() as u64;
                let (found, before) =
                    (recording.event_count(at) as u64, entry.run.event_count().saturating_sub(new));
                if found > before {
                    let reason = format!("another writer has recorded events of loop {}", setup.loop_id);
                    return Err(SessionError::LeaseLost { session_id: setup.session_id.clone(), reason });
                }
                at
            }
            None => {
                let base = self.base(recording, entry.run, entry.events);
                let mut record = record_of_setup(setup, entry.now);
                record.base = Some(base);
                recording.begin_run(record)
            }
        };
        let has_setup =
            matches!(recording.record(at).and_then(|r| r.open_run.as_ref()), Some(OpenRun::Known { .. }));
        let after = recording.counts(at);
        for event in entry.events.iter().filter(|e| !e.is_live()) {
            recording.take(at, RecordedEvent::Known(Box::new(event.clone())));
        }
        let earlier = recording.stand(at, entry.run);
        let number = recording.session.journal_records.saturating_add(1);
        let to = recording.counts(at);
        let mut job = None;
        if let Some((session, record, places, released)) = recording.view(at) {
            let state = match &record.open_run {
                Some(OpenRun::Known { light, .. }) => Some(&**light),
                _ => None,
            };
            let mut difference = None;
            let mut kept = Vec::new();
            if let (Some(state), Some(earlier)) = (state, earlier)
                && state.is_long()
            {
                kept = difference.insert(state.clone()).take_difference(&earlier);
            }
            let Content { loop_id, after, messages, other_messages, events } =
                Content::between(record, places, released, after, to, Some(entry.now));
            let line = Line {
                n: number,
                prev: self.lines.last(),
                at: entry.now,
                loop_id,
                after,
                messages,
                other_messages,
                events,
                setup: (known_at.is_none() || !has_setup).then_some(setup),
                base: record.base.as_ref().filter(|_| known_at.is_none()),
                state: difference.as_ref().or(state),
                kept: kept.into(),
            };
            let line = self.lines.write(&line)?;
            job = self.writer.append(&SessionRecord {
                number,
                line,
                durability,
                session,
                position: Some(at),
                own_before: after.0,
                other_before: after.1,
                run: Some(entry.run),
            })?;
        }
        recording.session.journal_records = number;
        // No loop begins from the end of a run that continues, and a second owner of its history would make the next
        // message copy a part of it.
        if entry.run.ended().is_some() || !entry.run.questions().is_empty() {
            self.known.note(&setup.loop_id, entry.run.history().clone());
        }
        if entry.run.ended().is_some() {
            recording.settle(at);
        }
        Ok(job)
    }

    /// Returns the conversation before a loop: the part that the session has by reference, and the rest in full.
    fn base(&self, recording: &Recording, run: &Run, events: &[AgentEvent]) -> LoopBase {
        let history = run.history();
        // Each message of the first entry is one unit of the history.
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
            // Messages can be equal without being shared, if the session was loaded and the agent was not.
            let pairs = history.units().zip(known.units()).take(before);
            shared = pairs.take_while(|(a, b)| a.entries() == b.entries()).count();
        }
        // The usual case, which costs the same however long the conversation is.
        if shared == before && shared == known.unit_count() {
            return LoopBase { after_loop: after, keep: known.len(), added: Vec::new() };
        }
        let keep = history.units().take(shared).map(|u| u.entries().len()).sum();
        let added: Vec<Entry> =
            history.units().take(before).skip(shared).flat_map(|u| u.entries().iter().cloned()).collect();
        LoopBase { after_loop: after, keep, added }
    }

    /// Applies and appends an event of a group.
    pub(super) fn append_group(
        &mut self,
        recording: &mut Recording,
        entry: &GroupEntry<'_>,
        durability: Durability,
    ) -> Result<Option<PendingWrite>, SessionError> {
        recording.take_group(entry.event);
        let number = recording.session.journal_records.saturating_add(1);
        let line = self.lines.write_group(number, entry.now, entry.event)?;
        let job = self.writer.append(&SessionRecord {
            number,
            line,
            durability,
            session: &recording.session,
            position: None,
            own_before: 0,
            other_before: 0,
            run: None,
        })?;
        recording.session.journal_records = number;
        Ok(job)
    }

    /// Writes the whole session, which replaces the records.
    pub(super) async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        self.writer.save(session).await
    }

    /// Writes the whole session from a destructor, where nothing can be awaited.
    pub(super) fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        self.writer.save_on_drop(session)
    }
}

/// Continues a stored session, with the conversation of its head.
fn begin(mut session: Session) -> (Option<Recording>, RecentHistories) {
    let mut known = RecentHistories::default();
    session.interrupt_running_branches();
    if let Some(head) = session.head_at(session.loops.len())
        && let Some(record) = session.loops.get(head)
        // A conversation that cannot be folded is not continued: the next loop writes its own beginning.
        && let Ok(fold) = session.fold_at(head)
    {
        known.note(&record.loop_id, fold.history().clone());
    }
    (Some(Recording::new(session)), known)
}

/// Creates the session of a first record.
pub(super) fn session_of_entry(entry: &JournalEntry<'_>) -> Session {
    let record = record_of_setup(entry.run.setup(), entry.now);
    session_of_loop(&record, &record.session_id, entry.run.setup().session_origin.as_ref())
}
