//! The disk of the world: a journal of runs whose unflushed entries a crash of the machine destroys.

use std::collections::BTreeMap;
use std::ops::Range;

use agent_core::journal::{AppliedInput, JournalError, RecordedLoop};
use agent_core::run::{Checkpoint, ChildEnd, QueueKind, Recorded, Run};
use agent_core::{AgentSnapshot, LoopId, SessionId};

/// One entry of the journal.
#[derive(Debug, Clone)]
pub(crate) struct DiskEntry {
    /// The run after the entry. A clone shares what grows.
    pub(crate) run: Run,
    pub(crate) inputs: Vec<AppliedInput>,
    pub(crate) flushed: bool,
    /// The positions of its events in the log.
    pub(crate) events: Range<usize>,
}

/// All entries of the journal, over all processes.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) entries: Vec<DiskEntry>,
}

impl Disk {
    /// Returns whether a loop belongs to the conversation of the agent: it is no child and no branch.
    pub(crate) fn is_conversation(&self, loop_id: &LoopId) -> bool {
        self.entries.iter().any(|entry| entry.run.loop_id() == loop_id && is_root(&entry.run))
    }

    /// Removes the entries after the last flushed one and returns the positions of their events in the log.
    pub(crate) fn crash(&mut self) -> Vec<usize> {
        let keep = self.entries.iter().rposition(|entry| entry.flushed).map_or(0, |last| last + 1);
        self.entries.drain(keep..).flat_map(|entry| entry.events).collect()
    }

    /// Returns the last entry of the loop that was started last, which is no child.
    fn last(&self) -> Option<&DiskEntry> {
        self.entries.iter().rev().find(|entry| is_root(&entry.run))
    }

    /// Returns the texts that the open run has in its queues.
    pub(crate) fn queued(&self) -> Vec<String> {
        self.last().map_or_else(Vec::new, |entry| queued_in(&entry.run))
    }

    /// Changes a snapshot of a new agent to the state that the journal has.
    pub(crate) fn restore(&self, snapshot: &mut AgentSnapshot) -> Result<(), JournalError> {
        let Some(last) = self.last() else { return Ok(()) };
        let run = reread(&last.run)?;
        snapshot.last_loop_id = Some(run.loop_id().clone());
        snapshot.loop_counters = self.counters(&snapshot.session_id);
        snapshot.history = run.history().clone();
        snapshot.suspended = run.ended().is_none().then(|| Box::new(run));
        Ok(())
    }

    /// Returns the number of started loops for each configuration segment of loop ids.
    fn counters(&self, session: &SessionId) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| is_root(&entry.run)) {
            let id = entry.run.loop_id().as_str();
            let rest = id.strip_prefix(session.as_str()).and_then(|rest| rest.strip_prefix('.'));
            if let Some((segment, number)) = rest.and_then(|rest| rest.rsplit_once('.'))
                && let Ok(number) = number.parse::<u64>()
            {
                let count = counters.entry(segment.to_owned()).or_default();
                *count = number.max(*count);
            }
        }
        counters
    }

    pub(crate) fn recorded(&self, loop_id: &LoopId) -> Result<RecordedLoop, JournalError> {
        let Some(entry) = self.entries.iter().rev().find(|entry| entry.run.loop_id() == loop_id) else {
            return Ok(RecordedLoop::Absent);
        };
        let run = reread(&entry.run)?;
        Ok(match ChildEnd::of(&run) {
            Some(end) => RecordedLoop::Ended(Box::new(end)),
            None => RecordedLoop::Open(Box::new(run)),
        })
    }
}

/// Returns the texts that a run has in its queues; none if it has ended.
pub(crate) fn queued_in(run: &Run) -> Vec<String> {
    if run.ended().is_some() {
        return Vec::new();
    }
    let kinds = [QueueKind::Steering, QueueKind::PassiveSteering, QueueKind::FollowUp];
    let queued = kinds.into_iter().flat_map(|kind| run.queued(kind));
    queued.map(|queued| queued.entry.message().text()).collect()
}

pub(crate) fn is_root(run: &Run) -> bool {
    run.setup().depth == 0 && run.setup().group.is_none()
}

/// Writes a run as JSON and reads it, as another process would.
fn reread(run: &Run) -> Result<Run, JournalError> {
    let failed = |what: &str, error: agent_core::provider::error::BoxError| {
        JournalError::new(format!("the run {} could not be {what}", run.loop_id()), Some(error))
    };
    let text =
        serde_json::to_string(&Checkpoint::of(run)).map_err(|error| failed("written", error.into()))?;
    let read = Checkpoint::from_json(&text).map_err(|error| failed("read", error.into()))?;
    Ok(read.into_run())
}

/// Applies recorded inputs to the run at the start of a loop.
pub(crate) fn replay(run: &mut Run, entry: &DiskEntry) -> Result<(), agent_core::run::Misplaced> {
    Recorded::new(entry.run.now(), entry.inputs.clone()).replay(run, &mut Vec::new())
}
