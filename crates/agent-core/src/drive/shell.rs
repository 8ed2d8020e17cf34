//! The driver: next, perform, apply, write down, pass on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::config::AgentLoopConfig;
use super::halt::Halt;
use super::ledger::{Ledger, is_passed_on};
use super::mailbox::Mailbox;
use super::output::Output;
use super::till::Till;
use crate::environment::NoRuntime;
use crate::event::{AgentEvent, Question};
use crate::history::{Entry, History, HistoryError, MessageRef};
use crate::identity::Timestamp;
use crate::journal::JournalError;
use crate::message::AgentMessage;
use crate::prefix::Prefixes;
use crate::provider::ReplyLog;
use crate::run::{Input, PartialReply, QueueKind, Queued, Run, RunSetup, Step};
use crate::tool::Tools;

/// How a driven run came back.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It ended; [`Run::ended`] says how.
    Ended(Box<Run>),
    /// It waits for an answer; [`Run::questions`] says which.
    Suspended(Box<Run>),
    /// There was no run.
    Nothing,
}

/// Why a run could not be driven to its end. It has been ended all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// It could not be written down.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// There is nobody to run its tools.
    #[error(transparent)]
    NoRuntime(#[from] NoRuntime),
}

/// A new run, and what it says at its start.
pub(crate) fn start_run(
    config: &AgentLoopConfig,
    setup: RunSetup,
    history: History,
    prompts: Vec<Entry>,
    queued: Vec<Queued>,
) -> Result<(Run, Vec<AgentEvent>), HistoryError> {
    // The start of loop, turn and prompt, and the prompt's end.
    let mut events = Vec::with_capacity(4);
    let run = Run::start_queued(setup, history, prompts, queued, config.services.environment.now(), &mut events)?;
    Ok((run, events))
}

/// What the caller's own sources have to say now.
pub(crate) fn ask_sources(config: &AgentLoopConfig) -> Vec<Queued> {
    let hooks = &config.hooks.queues;
    let sources = [(QueueKind::Steering, &hooks.steering), (QueueKind::FollowUp, &hooks.follow_up)];
    let mut queued = Vec::new();
    for (kind, source) in sources.into_iter().flat_map(|(kind, list)| list.iter().map(move |s| (kind, s))) {
        let messages = std::panic::catch_unwind(AssertUnwindSafe(|| source())).unwrap_or_default();
        queued.extend(messages.into_iter().map(|m| Queued::new(kind, counted(config, m))));
    }
    queued
}

/// An entry with the caller's count.
pub(crate) fn counted(config: &AgentLoopConfig, message: AgentMessage) -> Entry {
    let tokens = config.services.token_counter.count_message(&message);
    Entry::new(MessageRef::new(message), tokens)
}

/// What a shell does first.
enum Start {
    Begin,
    GoOn(Option<Box<Input>>),
}

/// Drives one run.
pub(crate) struct Shell {
    pub(super) config: Arc<AgentLoopConfig>,
    pub(super) tools: Tools,
    pub(super) system_prompt: Arc<str>,
    pub(super) output: Output,
    pub(super) cancel: CancellationToken,
    pub(super) mailbox: Option<Arc<Mailbox>>,
    /// The run, while it is being driven: what is still here when the shell is dropped was cut off.
    pub(super) run: Option<Run>,
    /// What it has said, on its way.
    pub(super) ledger: Ledger,
    /// The reply that is arriving: what there is of it is kept when the run is cut off.
    pub(super) arriving: Option<ReplyLog>,
    /// Whether the run has said `AgentStart`, here or in an earlier shell.
    pub(super) started: bool,
    /// What the budget is told; `None` without one.
    pub(super) till: Option<Box<Till>>,
    /// The last requests, to compare the next one with.
    pub(super) prefixes: Prefixes,
    /// What is done first. Here, because a future holds what it is given at each of its levels.
    start: Start,
}

impl Shell {
    pub(crate) fn new(
        config: Arc<AgentLoopConfig>,
        tools: Tools,
        system_prompt: Arc<str>,
        output: Output,
        cancel: CancellationToken,
        prefixes: Prefixes,
    ) -> Box<Self> {
        // Boxed at once: it is handed on several times, and a future holds what it is given more than once.
        Box::new(Self {
            config,
            tools,
            system_prompt,
            output,
            cancel,
            mailbox: None,
            run: None,
            ledger: Ledger::default(),
            arriving: None,
            started: false,
            till: None,
            prefixes,
            start: Start::GoOn(None),
        })
    }

    /// The same, with inputs from a handle.
    pub(crate) fn with_mailbox(mut self: Box<Self>, mailbox: Arc<Mailbox>) -> Box<Self> {
        self.mailbox = Some(mailbox);
        self
    }

    /// Takes the run that is to be driven, and what it said at its start. From here on a drop of the shell ends it.
    pub(crate) fn load(mut self: Box<Self>, run: Run, events: Vec<AgentEvent>) -> Box<Self> {
        self.started = run.has_started();
        self.till = Till::open(&self.config, &run);
        self.run = Some(run);
        self.ledger = Ledger::of(events);
        self
    }

    /// Drives a new run.
    pub(crate) async fn begin(mut self: Box<Self>) -> (Outcome, Option<Halt>) {
        self.start = Start::Begin;
        let halt = self.drive().await;
        (self.outcome(), halt)
    }

    /// Drives a run on, after this input if there is one.
    pub(crate) async fn go_on(mut self: Box<Self>, first: Option<Box<Input>>) -> (Outcome, Option<Halt>) {
        self.start = Start::GoOn(first);
        let halt = self.drive().await;
        (self.outcome(), halt)
    }

    /// Drives a new run, and hands what is left of it to its audience.
    pub(crate) async fn begin_for_audience(mut self: Box<Self>) {
        self.start = Start::Begin;
        self.drive().await;
        self.hand_over();
    }

    /// Drives a run on, and hands what is left of it to its audience.
    pub(crate) async fn go_on_for_audience(mut self: Box<Self>, first: Option<Box<Input>>) {
        self.start = Start::GoOn(first);
        self.drive().await;
        self.hand_over();
    }

    /// Drives the run until it ends, waits for an answer or is cut off, and says why it was cut off.
    async fn drive(&mut self) -> Option<Halt> {
        let halt = self.work().await.err()?;
        tracing::error!(reason = halt.reason(), "the run was cut off");
        // Rare, so that its room is not part of every run's.
        Box::pin(self.wind_up(&halt)).await;
        Some(halt)
    }

    /// Where the end of a run that is cut off can still be written down it is, and everybody hears of it.
    async fn wind_up(&mut self, halt: &Halt) {
        if !matches!(halt, Halt::Journal(_)) {
            let mut partial = self.arriving.take().map(|log| Box::new(PartialReply::of(&log)));
            for _ in 0..2 {
                if self.is_open() {
                    let interrupted = Some(halt.reason());
                    let _ = self.apply(Input::Abort { partial: partial.take(), interrupted }).await;
                }
            }
        }
        self.cut_off(&halt.reason());
    }

    fn outcome(&mut self) -> Outcome {
        match self.run.take() {
            Some(run) if run.ended().is_some() => Outcome::Ended(Box::new(run)),
            Some(run) => Outcome::Suspended(Box::new(run)),
            None => Outcome::Nothing,
        }
    }

    fn hand_over(&mut self) {
        if let Some(run) = self.run.take() {
            self.output.settle(run);
        }
        self.output.release();
    }

    async fn work(&mut self) -> Result<(), Halt> {
        match std::mem::replace(&mut self.start, Start::GoOn(None)) {
            Start::Begin => {
                if self.config.services.journal.is_some() {
                    Box::pin(self.record()).await?;
                }
                self.forward().await?;
            }
            Start::GoOn(Some(input)) => self.apply(*input).await?,
            Start::GoOn(None) => {}
        }
        loop {
            self.check_mail().await?;
            let Some(run) = &self.run else { return Ok(()) };
            let step = run.next();
            // A run that was being aborted when it was cut off is still to be aborted.
            if (self.cancel.is_cancelled() || run.is_aborting()) && !matches!(step, Step::Done(_)) {
                self.apply(Input::abort(None)).await?;
                // What still runs after an abort is nobody's any more: this shell runs nothing now.
                if self.run.as_ref().is_some_and(|r| r.ended().is_none()) {
                    self.apply(Input::abort(None)).await?;
                }
                continue;
            }
            // Verdicts on calls go with the reply that made them.
            if self.is_behind() && !matches!(step, Step::RunTools { .. }) {
                self.settle().await?;
                continue;
            }
            match step {
                // What is rare is boxed: many runs wait for a model at once, and each holds the room of its largest step.
                Step::Gate { gate, .. } => Box::pin(self.ask_gate(gate)).await?,
                Step::CallModel { history, key, attempt, route, max_output, .. } => {
                    self.call_model(history, key, (attempt, route), max_output).await?
                }
                Step::Reserve { history, route, tokens, reported, forced, .. } => {
                    let prompt = (tokens, reported);
                    Box::pin(self.reserve(history, route, prompt, forced)).await?
                }
                Step::Sleep { delay_ms, .. } => self.wait(delay_ms).await?,
                Step::RunTools { calls, .. } => Box::pin(self.run_tools(calls)).await?,
                Step::Compact { task, history, .. } => Box::pin(self.compact(task, history)).await?,
                Step::AwaitAnswer { questions, .. } => return self.say_suspended(questions).await,
                Step::Done(_) => return Ok(()),
            }
        }
    }

    /// The last event of a stream whose run waits. It is said here and not when it is forwarded: until the driver leaves
    /// the run, a message or an abort may make it go on, and a stream has one terminal event. A run that had been
    /// waiting before and still waits says so again.
    async fn say_suspended(&mut self, questions: Vec<Question>) -> Result<(), Halt> {
        let Some(loop_id) = self.run.as_ref().map(|r| r.loop_id().clone()) else { return Ok(()) };
        self.emit(AgentEvent::RunSuspended { loop_id, questions }).await
    }

    async fn wait(&mut self, delay_ms: u64) -> Result<(), Halt> {
        let sleep = self.config.services.environment.sleep(Duration::from_millis(delay_ms));
        let slept = tokio::select! {
            biased;
            () = sleep => true,
            () = self.cancel.cancelled() => false,
        };
        self.apply(if slept { Input::Slept } else { Input::abort(None) }).await
    }

    /// Applies what the handle and the caller's sources have queued.
    pub(super) async fn check_mail(&mut self) -> Result<(), Halt> {
        // A run that has ended takes nothing: what comes now waits for the next one.
        if !self.is_open() {
            return Ok(());
        }
        for queued in ask_sources(&self.config) {
            self.apply_lenient(Input::Queue { queued }).await?;
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

    /// Applies an input that may come too late or not fit; then it is dropped, and said so.
    async fn apply_lenient(&mut self, input: Input) -> Result<(), Halt> {
        match self.apply(input).await {
            Err(Halt::Misplaced(misplaced)) => {
                if let Some(mailbox) = &self.mailbox {
                    mailbox.refused();
                }
                tracing::warn!(%misplaced, "a queued input was refused");
                Ok(())
            }
            other => other,
        }
    }

    /// The run that is being driven.
    pub(super) fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.config.services.environment.now()
    }

    pub(super) async fn emit(&self, event: AgentEvent) -> Result<(), Halt> {
        Ok(self.output.emit(event).await?)
    }

    /// Ends a run that cannot go on. Nothing is waited for.
    fn cut_off(&mut self, reason: &str) {
        let now = self.config.services.environment.now();
        let Some(run) = &mut self.run else { return };
        let mut events = self.ledger.take_untold();
        let mut partial = self.arriving.take().map(|log| Box::new(PartialReply::of(&log)));
        for _ in 0..2 {
            if run.ended().is_none() {
                let input = Input::Abort { partial: partial.take(), interrupted: Some(reason.to_owned()) };
                let _ = match &mut self.till {
                    None => run.apply(now, input, &mut events),
                    Some(till) => till.apply(run, now, input, &mut events),
                };
            }
        }
        for event in events.into_iter().filter(is_passed_on) {
            self.started |= matches!(event, AgentEvent::AgentStart(_));
            let note = self.note(&event);
            self.output.emit_now(event);
            self.observe(note);
        }
    }
}

/// A run that is still being driven when its driver goes was cut off: by a panic, or because its future was dropped
/// (invariant 6).
impl Drop for Shell {
    fn drop(&mut self) {
        if self.run.is_some() {
            self.cancel.cancel();
            let panicking = std::thread::panicking();
            self.cut_off(if panicking { "the run's task panicked" } else { "the run's task was dropped" });
            if let Some(run) = self.run.take() {
                self.output.settle(run);
            }
        }
    }
}

/// The outcome of a future that belongs to the caller: its panic becomes a text.
pub(super) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| panic_text(&*panic))
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
