//! Applies inputs to the run, journals them, and delivers the resulting events.

use super::Shell;
use crate::drive::interrupt::Interrupt;
use crate::drive::journaling::Journaled;
use crate::drive::observers::Observation;
use crate::event::{AgentEvent, NumberedEvent};
use crate::journal::Durability;
use crate::run::{Input, Run};

impl Shell {
    /// Applies an input, journals it, and delivers the events.
    ///
    /// Not an `async fn`: its future would hold the input twice, and thousands of runs wait in one of these.
    pub(in crate::drive) fn apply(
        &mut self,
        input: Input,
    ) -> impl Future<Output = Result<(), Interrupt>> + Send + '_ {
        let applied = self.apply_to_run(input);
        async move {
            applied?;
            if self.may_defer_turn_end() {
                self.journaling.deferred = true;
                return Ok(());
            }
            self.settle().await.map(drop)
        }
    }

    /// Applies an input. Where nothing can observe the difference, journaling and delivery are deferred to the next
    /// input; [`settle`](Self::settle) must then precede everything the driver performs.
    pub(in crate::drive) fn apply_deferred(
        &mut self,
        input: Input,
        durability: Durability,
    ) -> impl Future<Output = Result<(), Interrupt>> + Send + '_ {
        let applied = self.apply_to_run(input);
        self.journaling.require(durability);
        self.journaling.deferred = applied.is_ok() && (self.may_defer() || self.may_defer_turn_end());
        async move {
            applied?;
            if self.journaling.deferred { Ok(()) } else { self.settle().await.map(drop) }
        }
    }

    /// Applies the start of the reply and delivers its event at once. It is journaled together with the end of the
    /// reply.
    pub(in crate::drive) async fn begin_reply(&mut self) -> Result<(), Interrupt> {
        self.apply_to_run(Input::ReplyStarted)?;
        if self.journaling.inputs.is_empty() {
            return self.deliver().await;
        }
        let new = self.journaling.deliver_early();
        Box::pin(self.deliver_and_wait(new)).await
    }

    /// Journals and delivers what earlier inputs left, and returns the proof that everything is journaled.
    pub(in crate::drive) async fn settle(&mut self) -> Result<Journaled, Interrupt> {
        let journal = self.performer.config.services.journal.as_deref();
        let rests = self.journaling.is_resting_point();
        let proof = self.journaling.settle(journal, self.run.as_ref()).await?;
        let warning = if rests { self.warning() } else { None };
        let mut warned = Ok(());
        if let Some(warning) = warning {
            let event = self.numbered_live(warning);
            warned = Box::pin(self.output.emit(event, &self.patience())).await;
        }
        // Also after a panic of a listener, because what was journaled must not be journaled again.
        self.deliver().await?;
        warned?;
        Ok(proof)
    }

    /// Journals what was not journaled when the run was cut off, unless the journal has it, and delivers it.
    pub(in crate::drive) async fn settle_cut_off(&mut self) -> Result<(), Interrupt> {
        if let (Some(journal), Some(run)) = (self.performer.config.services.journal.as_deref(), &mut self.run)
            && !self.journaling.is_recorded()
        {
            self.journaling.read_back(journal, run).await?;
        }
        self.settle().await.map(drop)
    }

    /// Returns what the journal warns of.
    fn warning(&self) -> Option<AgentEvent> {
        let (journal, run) = (self.performer.config.services.journal.as_deref()?, self.run.as_ref()?);
        let warning = journal.warning(run)?;
        Some(AgentEvent::JournalWarning { loop_id: run.loop_id().clone(), warning })
    }

    /// Returns whether journaling and delivery may be deferred: no listener and no hook runs before the next input.
    fn may_defer(&self) -> bool {
        let hooks = &self.performer.config.hooks;
        let hooked = !hooks.queues.steering.is_empty()
            || !hooks.queues.follow_up.is_empty()
            || !hooks.tool.before.is_empty()
            || !hooks.turn.on_error.is_empty();
        self.performer.config.services.journal.is_some()
            && !hooked
            && !self.output.has_listeners()
            && !self.journaling.is_resting_point()
    }

    /// Returns whether a turn has ended and nothing can queue a message while its end is delivered: then its end and
    /// the start of the next turn form one journal entry.
    fn may_defer_turn_end(&self) -> bool {
        let hooks = &self.performer.config.hooks;
        self.performer.config.services.journal.is_some()
            && self.run.as_ref().is_some_and(Run::is_between_turns)
            && hooks.turn.after.is_empty()
            && hooks.turn.on_error.is_empty()
            && hooks.queues.steering.is_empty()
            && hooks.queues.follow_up.is_empty()
            && !self.output.has_listeners()
    }

    /// Applies an input to the run and the budget. Keeps the input if it has to be journaled.
    fn apply_to_run(&mut self, input: Input) -> Result<(), Interrupt> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let (idle, applied) = self.performer.stamp_all(run, input);
        let has_journal = self.performer.config.services.journal.is_some();
        for applied in idle.into_iter().chain([applied]) {
            let journaled = has_journal.then(|| applied.clone());
            if has_journal {
                self.journaling.prepare(run);
            }
            let outcome = self.performer.apply_untold(run, applied, &mut self.journaling.events);
            match journaled {
                Some(journaled) if outcome.is_ok() => self.journaling.inputs.push(journaled),
                Some(_) => self.journaling.reject(),
                None => {}
            }
            outcome?;
        }
        if let Some(mailbox) = &self.mailbox {
            mailbox.publish(run.queues());
        }
        Ok(())
    }

    /// Delivers the collected events and calls the observing hooks of each.
    pub(super) async fn deliver(&mut self) -> Result<(), Interrupt> {
        match self.deliver_now() {
            None => Ok(()),
            // Boxed, so that a run without listeners reserves no memory for it.
            Some(rest) => Box::pin(self.deliver_and_wait(rest)).await,
        }
    }

    /// Delivers events as long as no listener has to be awaited. Returns the rest.
    fn deliver_now(&mut self) -> Option<Vec<AgentEvent>> {
        let delivered = std::mem::take(&mut self.journaling.delivered) as usize;
        let mut events = std::mem::take(&mut self.journaling.events);
        let mut rest = None;
        let mut number = self.number_before(events.len().saturating_sub(delivered));
        let mut new = events.drain(..).skip(delivered);
        for event in new.by_ref() {
            let observation = self.observe(&event);
            number += 1;
            if let Some(event) = self.output.try_emit(self.numbered(number, event)) {
                rest = Some(event.into_event());
                break;
            }
            self.notify(observation);
        }
        let rest = rest.map(|first| std::iter::once(first).chain(new).collect());
        // The buffer is reused for the next input.
        self.journaling.events = events;
        rest
    }

    /// Delivers events and awaits the listeners of each. Delivers all of them even if a listener panics.
    async fn deliver_and_wait(&mut self, events: Vec<AgentEvent>) -> Result<(), Interrupt> {
        let mut result = Ok(());
        let mut number = self.number_before(events.len());
        for event in events {
            let observation = self.observe(&event);
            number += 1;
            let event = self.numbered(number, event);
            if let Err(panic) = self.output.emit(event, &self.patience()).await {
                result = Err(panic);
            }
            self.notify(observation);
        }
        Ok(result?)
    }

    /// Returns the number of the event before the last `count` events of the run.
    pub(super) fn number_before(&self, count: usize) -> u64 {
        self.run.as_ref().map_or(0, |run| run.number_before(count))
    }

    /// Returns an event of the run with its number and the place of the loop.
    pub(super) fn numbered(&self, number: u64, event: AgentEvent) -> NumberedEvent {
        match &self.run {
            Some(run) => run.numbered_as(number, event),
            None => NumberedEvent::new(number, event),
        }
    }

    /// Returns a live event with the number of the event that was delivered before it.
    pub(super) fn numbered_live(&self, event: AgentEvent) -> NumberedEvent {
        let waiting = self.journaling.events.len().saturating_sub(self.journaling.delivered as usize);
        self.numbered(self.number_before(waiting), event)
    }

    /// Collects what the observing hooks receive for an event that is about to be delivered.
    pub(super) fn observe(&mut self, event: &AgentEvent) -> Option<Observation> {
        self.performer.follow(event);
        self.journaling.started |= matches!(event, AgentEvent::AgentStart(_));
        Observation::of(event, &self.performer.config.hooks, self.run.as_ref(), self.journaling.started)
    }

    /// Calls the observing hooks after an event has been delivered.
    pub(super) fn notify(&self, observation: Option<Observation>) {
        if let Some(observation) = observation {
            observation.notify(&self.performer.config.hooks);
        }
    }
}
