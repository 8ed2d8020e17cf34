//! What a run says on its way: applied, written down, passed on.
//!
//! Everything is written down before anybody is told and before anything is done about it. Inputs between which nothing is
//! done and nobody could tell go into the journal as one entry: a reply and the verdicts on its calls. That a reply
//! begins is told at once and written with what ends it, because what there is of it goes with the process in any case.

use super::halt::Halt;
use super::shell::Shell;
use crate::event::AgentEvent;
use crate::journal::{AppliedInput, Durability, JournalEntry};
use crate::run::Input;

/// What the run has said, and to what, as far as that is not written down or not passed on.
#[derive(Default)]
pub(super) struct Ledger {
    events: Vec<AgentEvent>,
    /// How many of them, from the first on, were passed on already.
    told: usize,
    /// Inputs that are to be written down.
    inputs: Vec<AppliedInput>,
    /// How safe they must be.
    durability: Durability,
    /// Whether something was left to the next input.
    is_behind: bool,
}

/// That nothing is left to be written down: what the run decided may be done.
pub(super) struct Written(());

impl Ledger {
    /// Begins with what a run said at its start.
    pub(super) fn of(events: Vec<AgentEvent>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Lets go of its room. Thousands of runs may wait at once with an empty one.
    pub(super) fn shrink(&mut self) {
        if self.events.is_empty() {
            self.events = Vec::new();
        }
        if self.inputs.is_empty() {
            self.inputs = Vec::new();
        }
    }

    /// What nobody has been told.
    pub(super) fn take_untold(&mut self) -> Vec<AgentEvent> {
        let told = std::mem::take(&mut self.told);
        let mut events = std::mem::take(&mut self.events);
        events.drain(..told);
        events
    }

    /// A run that waits for a person may wait for days.
    fn rests(&self) -> bool {
        use AgentEvent::{AgentEnd, QuestionAsked, TurnEnd};
        self.events.iter().any(|e| matches!(e, TurnEnd { .. } | AgentEnd(_) | QuestionAsked { .. }))
    }
}

impl Shell {
    /// Applies an input, writes it down, and passes on what the run says.
    ///
    /// Not an `async fn`: a future would hold the input more than once, and thousands of runs wait in one of these.
    pub(super) fn apply(&mut self, input: Input) -> impl Future<Output = Result<(), Halt>> + Send + '_ {
        let taken = self.take(input);
        async move {
            taken?;
            self.settle().await.map(drop)
        }
    }

    /// As [`apply`](Self::apply), or leaves what is to be written down and passed on to the next input, where nobody could
    /// tell. [`settle`](Self::settle) comes before anything that is done.
    pub(super) fn apply_soon(
        &mut self,
        input: Input,
        durability: Durability,
    ) -> impl Future<Output = Result<(), Halt>> + Send + '_ {
        let taken = self.take(input);
        self.ledger.durability = self.ledger.durability.max(durability);
        self.ledger.is_behind = taken.is_ok() && self.may_leave();
        async move {
            taken?;
            if self.is_behind() { Ok(()) } else { self.settle().await.map(drop) }
        }
    }

    /// The reply has begun.
    pub(super) async fn begin_reply(&mut self) -> Result<(), Halt> {
        self.take(Input::ReplyStarted)?;
        if self.ledger.inputs.is_empty() {
            return self.forward().await;
        }
        let new = self.ledger.events.get(self.ledger.told..).unwrap_or_default().to_vec();
        self.ledger.told = self.ledger.events.len();
        Box::pin(self.tell(new)).await
    }

    /// Writes down and passes on what is left of earlier inputs.
    pub(super) async fn settle(&mut self) -> Result<Written, Halt> {
        self.ledger.is_behind = false;
        if !self.ledger.inputs.is_empty() {
            Box::pin(self.record()).await?;
        }
        self.forward().await.map(|()| Written(()))
    }

    /// Whether something is left that is to be written down or passed on.
    pub(super) fn is_behind(&self) -> bool {
        self.ledger.is_behind
    }

    /// Whether nothing that anybody does could depend on what is left: no listener is waited for and no hook is asked
    /// before the next input.
    fn may_leave(&self) -> bool {
        let hooks = &self.config.hooks;
        let asks = !hooks.queues.steering.is_empty()
            || !hooks.queues.follow_up.is_empty()
            || !hooks.tool.before.is_empty()
            || !hooks.turn.on_error.is_empty();
        self.config.services.journal.is_some() && !asks && !self.output.is_heard() && !self.ledger.rests()
    }

    /// Applies an input, which is kept where it is to be written down.
    fn take(&mut self, input: Input) -> Result<(), Halt> {
        let now = self.now();
        let Some(run) = &mut self.run else { return Ok(()) };
        let journalled = self.config.services.journal.is_some().then(|| AppliedInput { now, input: input.clone() });
        match &mut self.till {
            None => run.apply(now, input, &mut self.ledger.events)?,
            Some(till) => till.apply(run, now, input, &mut self.ledger.events)?,
        }
        if let Some(mailbox) = &self.mailbox {
            mailbox.publish(run.queues());
        }
        self.ledger.inputs.extend(journalled);
        Ok(())
    }

    /// Writes down what the run has said and what it said it to.
    pub(super) async fn record(&mut self) -> Result<(), Halt> {
        let ledger = &mut self.ledger;
        let (Some(journal), Some(run)) = (&self.config.services.journal, &self.run) else { return Ok(()) };
        let durability = if ledger.rests() { Durability::Flushed } else { ledger.durability };
        let entry =
            JournalEntry { now: run.now(), inputs: &ledger.inputs, events: &ledger.events, run, durability };
        journal.append(entry).await?;
        ledger.inputs.clear();
        ledger.durability = Durability::default();
        Ok(())
    }

    /// Passes on what the run said, and calls the observing hooks of each event.
    pub(super) async fn forward(&mut self) -> Result<(), Halt> {
        match self.pass_on() {
            None => Ok(()),
            // Boxed, so that a run to which nobody listens has no room for it, wherever it waits.
            Some(left) => Box::pin(self.tell(left)).await,
        }
    }

    /// Passes on what the run said, as long as nobody has to be waited for. What is left comes back.
    fn pass_on(&mut self) -> Option<Vec<AgentEvent>> {
        let told = std::mem::take(&mut self.ledger.told);
        let mut events = std::mem::take(&mut self.ledger.events);
        let mut left = None;
        let mut said = events.drain(..).skip(told).filter(is_passed_on);
        for event in said.by_ref() {
            self.started |= matches!(event, AgentEvent::AgentStart(_));
            let note = self.note(&event);
            if let Some(event) = self.output.try_emit(event) {
                left = Some(event);
                break;
            }
            self.observe(note);
        }
        let left = left.map(|first| std::iter::once(first).chain(said).collect());
        // The buffer serves the next input.
        self.ledger.events = events;
        left
    }

    /// Passes events on and waits for those who listen.
    async fn tell(&mut self, events: Vec<AgentEvent>) -> Result<(), Halt> {
        let mut heard = Ok(());
        for event in events {
            self.started |= matches!(event, AgentEvent::AgentStart(_));
            let note = self.note(&event);
            if let Err(panic) = self.output.emit(event).await {
                heard = Err(panic);
            }
            self.observe(note);
        }
        Ok(heard?)
    }
}

/// Whether an event of the run goes out as it is. That the run waits is said by the shell, see
/// [`Shell::say_suspended`].
pub(super) fn is_passed_on(event: &AgentEvent) -> bool {
    !matches!(event, AgentEvent::RunSuspended { .. })
}
