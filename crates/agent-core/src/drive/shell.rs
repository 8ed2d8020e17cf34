//! The driver of one run: it performs each step, applies the result, journals it and delivers the events.

mod delivery;
mod model_calls;
mod tool_calls;

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::Outcome;
use super::config::AgentLoopConfig;
use super::interrupt::Interrupt;
use super::journaling::{CutOff, Journaling};
use super::mailbox::Mailbox;
use super::output::Output;
use super::patience::{AbortTime, Patience};
use super::perform::Performer;
use crate::budget::Budget;
use crate::environment::BoxFuture;
use crate::event::{AgentEvent, NumberedEvent};
use crate::history::{Entry, History, HistoryError, MessageRef};
use crate::message::AgentMessage;
use crate::prefix::Prefixes;
use crate::provider::{ReplyLog, SteeringFeed, SteeringSource};
use crate::run::{Input, PartialReply, QueueKind, Queued, Run, RunSetup, SteeringPolicy, Step};
use crate::tool::Tools;

/// Starts a run and returns it with its first events.
pub(crate) fn start_run(
    config: &AgentLoopConfig,
    setup: RunSetup,
    history: History,
    prompts: Vec<Entry>,
    queued: Vec<Queued>,
) -> Result<(Run, Vec<AgentEvent>), HistoryError> {
    // The start of the loop, the turn and the prompt, and the end of the prompt.
    let mut events = Vec::with_capacity(4);
    let run =
        Run::start_queued(setup, history, prompts, queued, config.services.environment.now(), &mut events)?;
    Ok((run, events))
}

/// Polls the caller's message sources and returns the messages for the queues. A source that panics supplies nothing.
pub(crate) fn poll_sources(config: &AgentLoopConfig) -> Vec<Queued> {
    let hooks = &config.hooks.queues;
    if hooks.steering.is_empty() && hooks.follow_up.is_empty() {
        return Vec::new();
    }
    let sources = [(QueueKind::Steering, &hooks.steering), (QueueKind::FollowUp, &hooks.follow_up)];
    let mut queued = Vec::new();
    for (kind, source) in sources.into_iter().flat_map(|(kind, list)| list.iter().map(move |s| (kind, s))) {
        let messages = std::panic::catch_unwind(AssertUnwindSafe(|| source())).unwrap_or_default();
        queued.extend(messages.into_iter().map(|m| Queued::new(kind, counted(config, m))));
    }
    queued
}

/// Creates a history entry, with its tokens counted by the configured counter.
pub(crate) fn counted(config: &AgentLoopConfig, message: AgentMessage) -> Entry {
    let tokens = config.services.token_counter.count_message(&message);
    Entry::new(MessageRef::new(message), tokens)
}

/// The first action of a shell.
enum Start {
    /// Starts a new run.
    Begin,
    /// Resumes a run, after applying the input if there is one.
    Resume(Option<Box<Input>>),
    /// Resumes a run that was cut off, after journaling what was not.
    Settle,
}

/// Drives one run. Dropping the shell while it holds the run interrupts the run.
///
/// One is allocated per run, see [`MAX_SHELL`].
pub(crate) struct Shell {
    pub(super) performer: Performer,
    pub(super) output: Output,
    pub(super) mailbox: Option<Arc<Mailbox>>,
    /// The run, while it is being driven. A run that is still here when the shell is dropped is interrupted.
    pub(super) run: Option<Run>,
    /// Events and inputs that are not yet delivered or journaled.
    journaling: Journaling,
    /// The reply that is arriving; its partial content is stored if the run is interrupted.
    arriving: Option<ReplyLog>,
    /// What is left of a run that was cut off while it was journaled.
    cut_off: Option<Box<CutOff>>,
    /// When the abort was noticed, see [`Patience`].
    aborted_at: AbortTime,
    /// The first action of the shell. It is a field and not an argument, because each nested future would hold a copy.
    start: Start,
}

/// The maximum size of a shell. For larger allocations, glibc first merges all small free blocks, which costs more than the
/// allocation.
#[cfg(target_pointer_width = "64")]
const MAX_SHELL: usize = 1_000;

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Shell>() <= MAX_SHELL, "box a rare part of the run");

impl Shell {
    pub(crate) fn new(
        config: Arc<AgentLoopConfig>,
        tools: Tools,
        system_prompt: Arc<str>,
        output: Output,
        cancel: CancellationToken,
        prefixes: Prefixes,
    ) -> Box<Self> {
        // Boxed at once, because each future that the shell passes through would otherwise reserve memory for it.
        Box::new(Self {
            performer: Performer::with_prefixes(config, tools, system_prompt, cancel, prefixes),
            output,
            mailbox: None,
            run: None,
            journaling: Journaling::default(),
            arriving: None,
            cut_off: None,
            aborted_at: AbortTime::default(),
            start: Start::Resume(None),
        })
    }

    /// Adds the mailbox through which an agent's handle sends inputs.
    pub(crate) fn with_mailbox(mut self: Box<Self>, mailbox: Arc<Mailbox>) -> Box<Self> {
        self.mailbox = Some(mailbox);
        self
    }

    /// Loads a new run, with the events of its start. From now on, dropping the shell interrupts the run.
    pub(crate) fn begin(self: Box<Self>, run: Run, events: Vec<AgentEvent>) -> Box<Self> {
        let has_journal = self.performer.config.services.journal.is_some();
        self.load(run, Journaling::of_start(events, has_journal), Start::Begin)
    }

    /// Loads a run that is resumed and to which `first` is applied, if there is one.
    pub(crate) fn resume(self: Box<Self>, mut run: Run, first: Option<Input>) -> Box<Self> {
        // A restored run holds all its messages.
        self.performer.release_messages(&mut run);
        let journaling = Journaling::of_resumed(&run);
        self.load(run, journaling, Start::Resume(first.map(Box::new)))
    }

    /// Loads a run that was cut off. What was not journaled of it is journaled first.
    pub(crate) fn resume_cut_off(self: Box<Self>, cut_off: CutOff) -> Box<Self> {
        self.load(cut_off.run, cut_off.journaling, Start::Settle)
    }

    fn load(mut self: Box<Self>, run: Run, journaling: Journaling, start: Start) -> Box<Self> {
        self.performer.open(&run);
        self.output.set_depth(run.setup().depth);
        self.run = Some(run);
        self.journaling = journaling;
        self.start = start;
        self
    }

    /// Drives the loaded run and returns it.
    pub(crate) async fn run_to_outcome(mut self: Box<Self>) -> (Outcome, Option<Interrupt>) {
        let interrupt = self.drive().await;
        (self.outcome(), interrupt)
    }

    /// Drives the loaded run and hands it to the audience.
    pub(crate) async fn run_for_audience(mut self: Box<Self>) {
        self.drive().await;
        self.hand_over();
    }

    /// Drives the run until it ends, is suspended or is interrupted. Returns the reason of an interruption.
    async fn drive(&mut self) -> Option<Interrupt> {
        // From the last input on: the time between an interruption and the resumption does not count here.
        let time_left = self.run.as_ref().and_then(|run| run.time_left(run.now()));
        let time_up = time_left.map(|left| self.performer.config.services.environment.deadline(left));
        let interrupt = self.perform_until(time_up).await.err();
        if let Some(flush) = self.flush_budget() {
            flush.await;
        }
        let interrupt = interrupt?;
        tracing::error!(reason = %interrupt, "the run was interrupted");
        // Boxed, because it is rare and would otherwise enlarge the future of every run.
        Box::pin(self.finish_interrupted(&interrupt)).await;
        Some(interrupt)
    }

    /// Reports what the run has spent to an account outside of the process.
    fn flush_budget(&self) -> Option<BoxFuture<'static, ()>> {
        // Boxed, because few budgets are shared with other processes.
        let budget = self.performer.config.services.budget.clone().filter(Budget::is_shared)?;
        Some(Box::pin(async move {
            if let Err(error) = budget.flush().await {
                tracing::warn!(%error, "the spending of a run has not been reported; it is reported later");
            }
        }))
    }

    /// Performs the steps of the run, and cancels the open one when `time_up` completes.
    ///
    /// The steps are pinned where they are created: as an argument of another future they would be stored twice.
    fn perform_until(
        &mut self,
        mut time_up: Option<BoxFuture<'static, ()>>,
    ) -> impl Future<Output = Result<(), Interrupt>> + Send + '_ {
        let cancel = self.performer.step_token().clone();
        async move {
            let mut steps = pin!(self.perform_steps());
            poll_fn(|cx| {
                if time_up.as_mut().is_some_and(|time_up| time_up.as_mut().poll(cx).is_ready()) {
                    time_up = None;
                    cancel.cancel();
                }
                steps.as_mut().poll(cx)
            })
            .await
        }
    }

    /// Ends an interrupted run: journals and delivers its end unless the journal itself fails.
    async fn finish_interrupted(&mut self, interrupt: &Interrupt) {
        let mut reason = interrupt.to_string();
        if !matches!(interrupt, Interrupt::Journal(_)) {
            let mut partial = self.arriving.take().map(|log| Box::new(PartialReply::of(&log)));
            for _ in 0..2 {
                if self.is_open() {
                    let interrupted = Some(interrupt.to_string());
                    let applied = self.apply(Input::Abort { partial: partial.take(), interrupted }).await;
                    if let Err(Interrupt::Journal(error)) = applied {
                        reason = format!("{reason}; {error}");
                        break;
                    }
                }
            }
        }
        self.cut_off(&reason);
    }

    /// Takes the run out of the shell.
    fn outcome(&mut self) -> Outcome {
        match self.run.take() {
            Some(run) if run.ended().is_some() => Outcome::Ended(Box::new(run)),
            Some(run) => Outcome::Suspended(Box::new(run)),
            None => Outcome::Nothing,
        }
    }

    /// Hands the run to the audience and releases the last event.
    fn hand_over(&mut self) {
        if let Some(run) = self.run.take() {
            self.output.settle(run, self.cut_off.take());
        }
        self.output.release();
    }

    /// Performs the steps of the run until it ends or is suspended.
    async fn perform_steps(&mut self) -> Result<(), Interrupt> {
        match std::mem::replace(&mut self.start, Start::Resume(None)) {
            Start::Begin => {
                let _recorded = self.settle().await?;
            }
            Start::Resume(Some(input)) => self.apply(*input).await?,
            Start::Resume(None) => {}
            Start::Settle => {
                Box::pin(self.settle_cut_off()).await?;
                // What was not journaled was the end, or the suspension.
                if self.output.withholds() {
                    return Ok(());
                }
            }
        }
        loop {
            self.check_mail().await?;
            let Some(run) = &self.run else { return Ok(()) };
            let step = run.next();
            // A second abort closes the calls that are still open, because this shell executes none now.
            if let Some(abort) = self.performer.interruption(run) {
                self.apply(abort).await?;
                continue;
            }
            // The verdicts on calls are journaled together with the reply that contains the calls, and what follows a
            // turn together with its end.
            if self.journaling.deferred && !matches!(step, Step::RunTools { .. } | Step::ReadQueues { .. }) {
                self.settle().await?;
                continue;
            }
            match step {
                Step::CallModel { .. } => {
                    if let Some(mut call) = self.performer.model_of(run, step) {
                        if self.performer.config.policy.steering_policy == SteeringPolicy::SkipRemaining
                            && let Some(mailbox) = &self.mailbox
                        {
                            call.steering =
                                Some(SteeringFeed::new(Arc::clone(mailbox) as Arc<dyn SteeringSource>));
                        }
                        self.call_model(&mut call).await?
                    }
                }
                Step::RunTools { calls, .. } => Box::pin(self.run_tools(calls)).await?,
                // The messages that were queued have been applied above.
                Step::ReadQueues { .. } => self.apply(Input::QueuesRead).await?,
                // A queued message or an abort has been applied above, so nothing else can continue the run.
                Step::AwaitAnswer { .. } => {
                    self.apply(Input::Suspended).await?;
                    // A listener may have aborted the run when it was suspended. The end replaces the suspension on the
                    // stream, whose last event is still withheld.
                    if !self.output.withholds() || !self.performer.step_token().is_cancelled() {
                        return Ok(());
                    }
                }
                Step::Done(_) => return Ok(()),
                // Rare steps are boxed: many runs wait for a model at once, and each reserves memory for its largest
                // step.
                Step::Gate { .. } | Step::Reserve { .. } | Step::Sleep { .. } | Step::Compact { .. } => {
                    let input = Box::pin(self.performer.perform(run)).await;
                    drop(step);
                    if let Some(input) = input {
                        self.apply(input).await?;
                    }
                }
            }
        }
    }

    /// Applies the messages that the handle and the caller's sources have queued.
    pub(super) async fn check_mail(&mut self) -> Result<(), Interrupt> {
        // A run that has ended accepts no input; new messages wait for the next run.
        if !self.is_open() {
            return Ok(());
        }
        for input in self.performer.queued() {
            self.apply_lenient(input).await?;
        }
        while self.is_open()
            && let Some(input) = self.mailbox.as_ref().and_then(|m| m.take_one())
        {
            self.apply_lenient(input).await?;
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.run.as_ref().is_some_and(|r| r.ended().is_none())
    }

    /// Applies an input that the run may reject, for example because it is late. Logs and drops a rejected input.
    async fn apply_lenient(&mut self, input: Input) -> Result<(), Interrupt> {
        match self.apply(input).await {
            Err(Interrupt::Misplaced(misplaced)) => {
                if let Some(mailbox) = &self.mailbox {
                    mailbox.refused();
                }
                tracing::warn!(%misplaced, "a queued input was rejected");
                Ok(())
            }
            other => other,
        }
    }

    /// Returns how long the driver waits for listeners.
    fn patience(&self) -> Patience<'_> {
        Patience {
            cancel: self.performer.step_token(),
            environment: &*self.performer.config.services.environment,
            grace: self.performer.config.policy.grace,
            aborted_at: &self.aborted_at,
        }
    }

    /// Emits a live event of the run and awaits the listeners.
    pub(super) async fn emit(&self, event: AgentEvent) -> Result<(), Interrupt> {
        Ok(self.output.emit(self.numbered_live(event), &self.patience()).await?)
    }

    /// Emits an event of a child loop and awaits the listeners.
    pub(super) async fn emit_child(&self, event: NumberedEvent) -> Result<(), Interrupt> {
        Ok(self.output.emit(event, &self.patience()).await?)
    }

    /// Ends the run without waiting, and emits what is undelivered and the end. Nothing is journaled: of a run with a
    /// journal, only what is journaled is emitted before the end, and the rest is left for a resumption.
    fn cut_off(&mut self, reason: &str) {
        if self.performer.config.services.journal.is_some() {
            return self.leave_unrecorded(reason);
        }
        let Some(run) = &mut self.run else { return };
        let mut events = self.journaling.take_undelivered();
        let mut partial = self.arriving.take().map(|log| Box::new(PartialReply::of(&log)));
        for _ in 0..2 {
            if run.ended().is_none() {
                let input = Input::Abort { partial: partial.take(), interrupted: Some(reason.to_owned()) };
                let applied = self.performer.stamp(input);
                let _ = self.performer.apply_untold(run, applied, &mut events);
            }
        }
        self.emit_all_now(events);
    }

    /// Ends a run with a journal, as its listeners see it, after its last entry.
    fn leave_unrecorded(&mut self, reason: &str) {
        if self.journaling.is_recorded() {
            let events = self.journaling.take_undelivered();
            self.emit_all_now(events);
            if !self.is_open() {
                return;
            }
        }
        let Some(run) = self.run.take() else { return };
        let cut_off = CutOff { run, journaling: std::mem::take(&mut self.journaling) };
        self.journaling.started = cut_off.journaling.started;
        let mut recorded = cut_off.recorded_run();
        let number = recorded.event_number();
        let end = recorded.cut_off(self.performer.config.services.environment.now(), reason);
        (self.run, self.cut_off) = (Some(recorded), Some(Box::new(cut_off)));
        if let Some(end) = end {
            self.emit_now(number, end);
        }
    }

    /// Emits the last events of the run without waiting.
    fn emit_all_now(&mut self, events: Vec<AgentEvent>) {
        let mut number = self.number_before(events.len());
        for event in events {
            number += 1;
            self.emit_now(number, event);
        }
    }

    fn emit_now(&mut self, number: u64, event: AgentEvent) {
        let observation = self.observe(&event);
        self.output.emit_now(self.numbered(number, event));
        self.notify(observation);
    }
}

/// Interrupts a run whose driver panicked or whose future was dropped.
impl Drop for Shell {
    fn drop(&mut self) {
        if self.run.is_some() {
            self.performer.cancel_token().cancel();
            let panicking = std::thread::panicking();
            self.cut_off(if panicking { "the run's task panicked" } else { "the run's task was dropped" });
            if let Some(run) = self.run.take() {
                self.output.settle(run, self.cut_off.take());
            }
        }
    }
}
