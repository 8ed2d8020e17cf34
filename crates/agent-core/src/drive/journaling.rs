//! The events and inputs of a run that are not yet journaled or delivered.
//!
//! An input is journaled before its events are delivered and before the driver performs the next step (write-ahead).
//! Two exceptions keep the journal short: inputs between which the driver does nothing observable form one entry (a
//! reply and the verdicts on its calls), and the start of a reply is delivered at once and journaled together with
//! the end of the reply.
//!
//! An entry that could not be written remains here, with the run as it was before. Its events are not delivered. The
//! run can be resumed: the entry is written again, unless the journal has it.

use crate::event::AgentEvent;
use crate::journal::{AppliedInput, Durability, Journal, JournalEntry, JournalError, RecordedLoop};
use crate::run::{Input, Queued, Run};

/// Buffers the events of a run until they are journaled and delivered, and the inputs until they are journaled.
#[derive(Default)]
pub(super) struct Journaling {
    /// Events that are not yet both journaled and delivered.
    pub(super) events: Vec<AgentEvent>,
    /// The number of `events`, from the first one, that have already been delivered.
    pub(super) delivered: u32,
    /// Inputs that are not yet journaled.
    pub(super) inputs: Vec<AppliedInput>,
    /// The durability that the next entry needs.
    durability: Durability,
    /// Whether journaling and delivery were deferred to the next input.
    pub(super) deferred: bool,
    /// Whether not even the start of the run is journaled.
    is_new: bool,
    /// Whether the run's `AgentStart` was delivered, by this driver or an earlier one.
    pub(super) started: bool,
    /// The run as it was before the inputs that are not journaled, without its messages; `None` if there are none.
    before: Option<Box<Run>>,
}

/// Proof that every applied input has been journaled, so the driver may perform what the run decided.
pub(super) struct Journaled(());

/// A run that was cut off, and what is not journaled of it. It can be resumed.
pub(crate) struct CutOff {
    pub(super) run: Run,
    pub(super) journaling: Journaling,
}

impl Journaling {
    /// Starts with the events that a new run emitted, which are journaled first if the run has a journal.
    pub(super) fn of_start(events: Vec<AgentEvent>, has_journal: bool) -> Self {
        Self { events, is_new: has_journal, ..Self::default() }
    }

    /// Continues a run, all of which is journaled.
    pub(super) fn of_resumed(run: &Run) -> Self {
        Self { started: run.has_started(), ..Self::default() }
    }

    /// Frees the empty buffers. Thousands of runs may wait for a model at the same time.
    pub(super) fn shrink(&mut self) {
        if self.events.is_empty() {
            self.events = Vec::new();
        }
        if self.inputs.is_empty() {
            self.inputs = Vec::new();
        }
    }

    /// Removes all events and returns those that have not been delivered.
    pub(super) fn take_undelivered(&mut self) -> Vec<AgentEvent> {
        let delivered = std::mem::take(&mut self.delivered) as usize;
        let mut events = std::mem::take(&mut self.events);
        events.drain(..delivered);
        events
    }

    /// Returns copies of the undelivered events and marks them as delivered. They remain here until they are
    /// journaled.
    pub(super) fn deliver_early(&mut self) -> Vec<AgentEvent> {
        let new = self.events.get(self.delivered as usize..).unwrap_or_default().to_vec();
        self.delivered = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        new
    }

    /// Raises the durability of the next entry to at least `durability`.
    pub(super) fn require(&mut self, durability: Durability) {
        self.durability = self.durability.max(durability);
    }

    /// Notes the run before an input that has to be journaled.
    pub(super) fn prepare(&mut self, run: &Run) {
        if self.is_recorded() {
            self.before = Some(Box::new(run.without_messages()));
        }
    }

    /// Forgets what [`prepare`](Self::prepare) noted, because the run rejected the input.
    pub(super) fn reject(&mut self) {
        if self.inputs.is_empty() {
            self.before = None;
        }
    }

    /// Returns whether everything is journaled.
    pub(super) fn is_recorded(&self) -> bool {
        self.before.is_none() && !self.is_new
    }

    /// Returns whether the run may now stay idle for a long time: a turn or the run has ended, or a question is open.
    pub(super) fn is_resting_point(&self) -> bool {
        use AgentEvent::{AgentEnd, QuestionAsked, TurnEnd};
        self.events.iter().any(|e| matches!(e, TurnEnd { .. } | AgentEnd(_) | QuestionAsked { .. }))
    }

    /// Writes one journal entry with all inputs and events collected so far.
    async fn write(&mut self, journal: &dyn Journal, run: &Run) -> Result<(), JournalError> {
        let durability = if self.is_resting_point() { Durability::Flushed } else { self.durability };
        let entry =
            JournalEntry { now: run.now(), inputs: &self.inputs, events: &self.events, run, durability };
        journal.append(entry).await?;
        self.finish_entry();
        Ok(())
    }

    fn finish_entry(&mut self) {
        self.inputs.clear();
        self.durability = Durability::default();
        (self.is_new, self.before) = (false, None);
    }

    /// Journals what waits, if anything does, and returns the proof of it.
    pub(super) async fn settle(
        &mut self,
        journal: Option<&dyn Journal>,
        run: Option<&Run>,
    ) -> Result<Journaled, JournalError> {
        self.deferred = false;
        if let (Some(journal), Some(run)) = (journal, run)
            && !self.is_recorded()
        {
            Box::pin(self.write(journal, run)).await?;
        }
        Ok(Journaled(()))
    }

    /// Finds out whether the entry that waits was written although its write had failed. If it was not, the starts of calls
    /// are taken back, because no call was executed: they are decided again.
    ///
    /// # Errors
    /// When the journal cannot be read, or has another state of the run.
    pub(super) async fn read_back(
        &mut self,
        journal: &dyn Journal,
        run: &mut Run,
    ) -> Result<(), JournalError> {
        let last = run.event_number();
        let before = last.saturating_sub(self.events.len() as u64);
        let setup = run.setup();
        let found = match journal.recorded_loop(&setup.session_id, &setup.loop_id).await? {
            RecordedLoop::Unknown => before,
            RecordedLoop::Absent => 0,
            RecordedLoop::Open(found) => found.event_number(),
            RecordedLoop::Ended(_) if run.ended().is_some() => last,
            RecordedLoop::Ended(_) => u64::MAX,
        };
        if found == last && !self.events.is_empty() {
            self.finish_entry();
        } else if found != before {
            let text = format!("the session has another state of the loop {}; load it again", setup.loop_id);
            return Err(JournalError::new(text, None));
        } else {
            self.take_back_starts(run);
        }
        Ok(())
    }

    /// Takes back the last inputs of the entry that are starts of calls.
    fn take_back_starts(&mut self, run: &mut Run) {
        let is_start = |applied: &AppliedInput| matches!(applied.input, Input::ToolBegan { .. });
        let kept = self.inputs.iter().rposition(|applied| !is_start(applied)).map_or(0, |last| last + 1);
        if kept == self.inputs.len() {
            return;
        }
        let (mut earlier, mut events) = (self.recorded_run(run), Vec::new());
        for applied in self.inputs.iter().take(kept) {
            if earlier.apply(applied.now, applied.input.clone(), &mut events).is_err() {
                return;
            }
        }
        (*run, self.events) = (earlier, events);
        self.inputs.truncate(kept);
        if self.inputs.is_empty() {
            self.finish_entry();
        }
    }

    /// Returns the run as its last entry left it; `run` has the inputs that are not journaled, too.
    fn recorded_run(&self, run: &Run) -> Run {
        match &self.before {
            _ if self.is_new => run.before_start(),
            Some(before) => Run::clone(before).with_messages_of(run),
            None => run.clone(),
        }
    }
}

impl CutOff {
    /// Returns the run as its last entry left it.
    pub(crate) fn recorded_run(&self) -> Run {
        self.journaling.recorded_run(&self.run)
    }

    /// Returns the run with the inputs that are not journaled.
    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    /// Returns whether the start of the run is journaled.
    pub(crate) fn has_begun(&self) -> bool {
        !self.journaling.is_new
    }

    /// Returns the messages that were queued by inputs that are not journaled.
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Queued> {
        self.journaling.inputs.iter().filter_map(|applied| match &applied.input {
            Input::Queue { queued } => Some(queued),
            _ => None,
        })
    }
}
