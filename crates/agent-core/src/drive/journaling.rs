//! The events and inputs of a run that are not yet journaled or delivered.
//!
//! An input is journaled before its events are delivered and before the driver performs the next step (write-ahead).
//! Two exceptions keep the journal short: inputs between which the driver does nothing observable form one entry (a
//! reply and the verdicts on its calls), and the start of a reply is delivered at once and journaled together with
//! the end of the reply.

use crate::event::AgentEvent;
use crate::journal::{AppliedInput, Durability, Journal, JournalEntry, JournalError};
use crate::run::Run;

/// Buffers the events of a run until they are journaled and delivered, and the inputs until they are journaled.
#[derive(Default)]
pub(super) struct Journaling {
    /// Events that are not yet both journaled and delivered.
    pub(super) events: Vec<AgentEvent>,
    /// The number of `events`, from the first one, that have already been delivered.
    pub(super) delivered: usize,
    /// Inputs that are not yet journaled.
    pub(super) inputs: Vec<AppliedInput>,
    /// The durability that the next entry needs.
    durability: Durability,
    /// Whether journaling and delivery were deferred to the next input.
    pub(super) deferred: bool,
}

/// Proof that every applied input has been journaled, so the driver may perform what the run decided.
pub(super) struct Journaled(());

impl Journaling {
    /// Starts with the events that a new run emitted.
    pub(super) fn with_events(events: Vec<AgentEvent>) -> Self {
        Self { events, ..Self::default() }
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
        let delivered = std::mem::take(&mut self.delivered);
        let mut events = std::mem::take(&mut self.events);
        events.drain(..delivered);
        events
    }

    /// Returns copies of the undelivered events and marks them as delivered. They remain here until they are
    /// journaled.
    pub(super) fn deliver_early(&mut self) -> Vec<AgentEvent> {
        let new = self.events.get(self.delivered..).unwrap_or_default().to_vec();
        self.delivered = self.events.len();
        new
    }

    /// Raises the durability of the next entry to at least `durability`.
    pub(super) fn require(&mut self, durability: Durability) {
        self.durability = self.durability.max(durability);
    }

    /// Returns whether the run may now stay idle for a long time: a turn or the run has ended, or a question is open.
    pub(super) fn is_resting_point(&self) -> bool {
        use AgentEvent::{AgentEnd, QuestionAsked, TurnEnd};
        self.events.iter().any(|e| matches!(e, TurnEnd { .. } | AgentEnd(_) | QuestionAsked { .. }))
    }

    /// Writes one journal entry with all inputs and events collected so far.
    pub(super) async fn write(&mut self, journal: &dyn Journal, run: &Run) -> Result<(), JournalError> {
        let durability = if self.is_resting_point() { Durability::Flushed } else { self.durability };
        let entry =
            JournalEntry { now: run.now(), inputs: &self.inputs, events: &self.events, run, durability };
        journal.append(entry).await?;
        self.inputs.clear();
        self.durability = Durability::default();
        Ok(())
    }

    /// Journals the inputs that wait, if any, and returns the proof of it.
    pub(super) async fn settle(
        &mut self,
        journal: Option<&dyn Journal>,
        run: Option<&Run>,
    ) -> Result<Journaled, JournalError> {
        self.deferred = false;
        if let (Some(journal), Some(run)) = (journal, run)
            && !self.inputs.is_empty()
        {
            Box::pin(self.write(journal, run)).await?;
        }
        Ok(Journaled(()))
    }
}
