//! Performs the steps of a run, for the built-in driver and for drivers of your own.
//!
//! [`Run::next`] returns a step, a [`Performer`] performs it and returns its results as inputs, and
//! [`Performer::apply`] applies them. A driver decides only when to record, deliver and wait. `docs/guides/own-driver.md`
//! contains a complete driver without an async runtime.
//!
//! | step | perform with | then apply |
//! |---|---|---|
//! | `Gate`, `Reserve`, `Sleep`, `Compact` | [`Performer::perform`] | the input |
//! | `ReadQueues` | [`Performer::queued`], then [`Performer::perform`] | the inputs |
//! | `CallModel` | [`Performer::model`] and [`ModelCall::perform`] | the inputs, in order |
//! | `RunTools` | [`Performer::decide`] for each call, then [`Performer::calls`] and [`Performer::review`] | each input |
//! | `AwaitAnswer` | nothing | `Suspended`, and later `Answer` |
//!
//! ```
//! use std::sync::Arc;
//!
//! use agent_core::drive::Performer;
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{AgentLoopConfig, History, ModelConfig, Tools};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Arc::new(ScriptedProvider::texts(["It is 4."]));
//! let config = AgentLoopConfig::system(model, ModelConfig::default());
//! let mut performer = Performer::new(config, Tools::default(), "Be brief.");
//! let setup = performer.setup("agent".into(), "s-1".into(), "s-1.demo.1".into());
//! let mut events = Vec::new();
//! let mut run = performer.start(setup, History::new(), vec!["2 + 2?".into()], &mut events)?;
//! if let Some(call) = performer.model(&run) {
//!     for input in call.perform(|_live| {}).await {
//!         let applied = performer.stamp(input);
//!         performer.apply(&mut run, applied, &mut events)?;
//!     }
//! }
//! assert_eq!(run.history().len(), 2);
//! # Ok(())
//! # }
//! ```

mod execution;
mod model;
mod tools;
mod unknown_model;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub use execution::{CallProgress, ToolCalls};
pub use model::{Live, ModelCall};
pub use tools::{Decision, ReadyCall};

pub(crate) use model::LiveSink;
use unknown_model::UnknownModels;

use super::budget_meter::{BudgetMeter, PlannedCall};
use super::config::{AgentContext, AgentLoopConfig, LoopIds, run_setup};
use super::observers::Observation;
use super::request::{listed_tools, target};
use super::run_clock::{Reading, RunClock};
use super::spans::{self, Spans};
use super::{compaction, counted, gates, poll_sources, record_instructions};
use crate::event::AgentEvent;
use crate::history::{History, HistoryError};
use crate::identity::{AgentId, LoopId, SessionId};
use crate::journal::AppliedInput;
use crate::message::AgentMessage;
use crate::prefix::Prefixes;
use crate::run::{Input, Misplaced, Run, RunSetup, Step};
use crate::tool::Tools;

/// Performs the steps of one run: calls hooks, the model and tools, waits, and returns every result as an [`Input`].
///
/// It applies nothing by itself and stores no state of the run, except for its reservations in a budget. A run that was
/// restored in another process continues with a new `Performer` after [`open`](Self::open).
pub struct Performer {
    /// The configuration of the loop.
    pub config: Arc<AgentLoopConfig>,
    /// The tools that the model can call.
    pub tools: Tools,
    /// The system prompt of the loop.
    pub system_prompt: Arc<str>,
    /// Cancelled when the open step must end: by an abort, or because the run reached its maximum duration.
    cancel: CancellationToken,
    /// The caller's token, whose child `cancel` is.
    aborted: CancellationToken,
    /// The budget accounts of the run; `None` without a budget.
    budget: Option<Box<BudgetMeter>>,
    /// The last requests, to detect cache breaks.
    prefixes: Prefixes,
    /// The tracing spans of the run; `None` if no subscriber wants them.
    spans: Option<Box<Spans>>,
    unknown_models: UnknownModels,
    clock: RunClock,
}

impl Performer {
    /// Creates a performer with a cancellation token of its own.
    #[must_use]
    pub fn new(
        config: impl Into<Arc<AgentLoopConfig>>,
        tools: Tools,
        system_prompt: impl Into<Arc<str>>,
    ) -> Self {
        let (config, system_prompt) = (config.into(), system_prompt.into());
        Self::with_prefixes(config, tools, system_prompt, CancellationToken::new(), Prefixes::default())
    }

    /// Creates a performer with the tools, the system prompt and the last requests of `context`.
    #[must_use]
    pub fn for_context(context: &AgentContext, config: impl Into<Arc<AgentLoopConfig>>) -> Self {
        let (tools, prompt) = (context.tools.clone(), context.system_prompt.clone());
        let cancel = CancellationToken::new();
        Self::with_prefixes(config.into(), tools, prompt, cancel, context.prefixes.shared())
    }

    pub(crate) fn with_prefixes(
        config: Arc<AgentLoopConfig>,
        tools: Tools,
        system_prompt: Arc<str>,
        aborted: CancellationToken,
        prefixes: Prefixes,
    ) -> Self {
        let cancel = aborted.child_token();
        let config = config.completed().map_or(config, Arc::new);
        Self {
            config,
            tools,
            system_prompt,
            cancel,
            aborted,
            budget: None,
            prefixes,
            spans: None,
            unknown_models: UnknownModels::default(),
            clock: RunClock::default(),
        }
    }

    /// Replaces the token whose cancellation aborts the run.
    #[must_use]
    pub fn with_cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel.child_token();
        self.aborted = cancel;
        self
    }

    /// Returns the token whose cancellation aborts the run.
    #[must_use]
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.aborted
    }

    /// Returns the token that ends the open step. It is cancelled with the caller's token; cancel it alone when the
    /// maximum duration has passed, [`Run::time_left`] after the run was started or resumed. The run then ends with its
    /// limit.
    #[must_use]
    pub fn step_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns the setup of a run with this configuration and these tools. The fields that concern its place in a tree
    /// of loops are unset and can be assigned.
    #[must_use]
    pub fn setup(&self, agent: AgentId, session: SessionId, of_loop: LoopId) -> RunSetup {
        let ids = LoopIds { agent, session, of_loop, parent: None, group: None };
        run_setup(&self.config, &self.tools, ids, None)
    }

    /// Starts a run with these prompts, opens its budget accounts, and appends its first events to `out`.
    ///
    /// # Errors
    /// Returns an error if a prompt cannot enter the conversation alone.
    pub fn start(
        &mut self,
        setup: RunSetup,
        history: History,
        prompts: Vec<AgentMessage>,
        out: &mut Vec<AgentEvent>,
    ) -> Result<Run, HistoryError> {
        let mut prompts = prompts.into_iter().map(|m| counted(&self.config, m)).collect();
        record_instructions(&self.config, &history, &self.system_prompt, &self.tools, &mut prompts);
        let now = self.config.services.environment.now();
        let run = Run::start_queued(setup, history, prompts, poll_sources(&self.config), now, out)?;
        self.open(&run);
        Ok(run)
    }

    /// Opens the budget accounts and the tracing span of a run that another `Performer` started.
    pub fn open(&mut self, run: &Run) {
        // The accounts of an earlier run are closed first.
        self.budget = None;
        self.budget = BudgetMeter::open(&self.config, run);
        self.spans = Spans::open(run);
        self.clock = RunClock::starting(run, &*self.config.services.environment);
    }

    /// Returns the input with the time of the run, as it is applied and recorded. An abort becomes `TimeUp` if the maximum
    /// duration of the run caused it.
    ///
    /// The time is that of the last input of the run when it was opened, and advances with the monotonic clock. Only a time of
    /// day that is far ahead replaces it; [`idle`](Self::idle) returns what to apply then.
    #[must_use]
    pub fn stamp(&self, input: Input) -> AppliedInput {
        self.stamped(input, self.clock.read(&*self.config.services.environment))
    }

    /// Returns an input for time that passed and is not the run's: the machine was suspended, the process was stopped, or
    /// another process interrupted the run. Apply and record it before the next input; without it, that time counts for
    /// the maximum duration.
    pub fn idle(&mut self, run: &Run) -> Option<AppliedInput> {
        let reading = self.clock.read(&*self.config.services.environment);
        self.idle_at(run, reading)
    }

    /// Like [`idle`](Self::idle) and [`stamp`](Self::stamp) with one reading of the clocks.
    pub(crate) fn stamp_all(&mut self, run: &Run, input: Input) -> (Option<AppliedInput>, AppliedInput) {
        let reading = self.clock.read(&*self.config.services.environment);
        (self.idle_at(run, reading), self.stamped(input, reading))
    }

    fn idle_at(&mut self, run: &Run, reading: Reading) -> Option<AppliedInput> {
        if reading.idle_ms == 0 {
            return None;
        }
        self.clock.set(reading);
        // The time of a question does not count in any case.
        let works = run.ended().is_none() && !run.is_suspended();
        works.then(|| AppliedInput { now: reading.now, input: Input::Idle { ms: reading.idle_ms } })
    }

    fn stamped(&self, input: Input, reading: Reading) -> AppliedInput {
        let input = match input {
            // Only the caller's token and the maximum duration cancel the step.
            Input::Abort { partial, interrupted: None }
                if !self.aborted.is_cancelled() && self.cancel.is_cancelled() =>
            {
                Input::TimeUp { partial }
            }
            other => other,
        };
        AppliedInput { now: reading.now, input }
    }

    /// Applies an input to the run, charges the resulting spending to the budget, and appends the events to `out`.
    /// To replay recorded inputs, use [`Run::apply`], which charges nothing.
    ///
    /// # Errors
    /// Returns [`Misplaced`] if the run does not expect the input. The run is unchanged then.
    pub fn apply(
        &mut self,
        run: &mut Run,
        applied: AppliedInput,
        out: &mut Vec<AgentEvent>,
    ) -> Result<(), Misplaced> {
        let before = out.len();
        self.apply_untold(run, applied, out)?;
        out.get(before..).unwrap_or_default().iter().for_each(|event| self.follow(event));
        Ok(())
    }

    /// Applies an input whose events are not recorded yet. [`follow`](Self::follow) is called with each when it is.
    pub(super) fn apply_untold(
        &mut self,
        run: &mut Run,
        applied: AppliedInput,
        out: &mut Vec<AgentEvent>,
    ) -> Result<(), Misplaced> {
        let AppliedInput { now, input } = applied;
        let compacts = matches!(input, Input::Compacted { .. });
        match &mut self.budget {
            None => run.apply(now, input, out)?,
            Some(meter) => {
                let suspends = matches!(input, Input::Suspended);
                meter.unpause(&self.config);
                meter.apply(run, now, input, out)?;
                if suspends {
                    meter.pause();
                }
            }
        }
        if compacts {
            self.release_messages(run);
        }
        Ok(())
    }

    /// Opens and closes the spans of the run for a recorded event.
    pub(super) fn follow(&mut self, event: &AgentEvent) {
        if let Some(spans) = &mut self.spans {
            spans.follow(event);
        }
    }

    /// Drops the messages that compactions removed from the conversation, if the journal can read them back.
    pub(crate) fn release_messages(&self, run: &mut Run) {
        let journal = self.config.services.journal.as_ref();
        if let Some(stored) = journal.and_then(|journal| journal.stored_messages(run)) {
            run.release_messages(stored);
        }
    }

    /// Returns the abort to apply before the next step, if the run is to be aborted: its token was cancelled, its time
    /// is up, or it was resumed inside of an abort. Apply inputs until this returns `None`.
    #[must_use]
    pub fn interruption(&self, run: &Run) -> Option<Input> {
        let aborts = self.cancel.is_cancelled() || run.is_aborting();
        (aborts && run.ended().is_none()).then(|| Input::abort(None))
    }

    /// Returns the messages of the configured steering and follow-up sources as inputs. Apply them before each step,
    /// before the inputs of a model call, and before each end of a tool call.
    #[must_use]
    pub fn queued(&self) -> Vec<Input> {
        poll_sources(&self.config).into_iter().map(|queued| Input::Queue { queued }).collect()
    }

    /// Performs a gate, a reservation, a delay or a compaction and returns its result. `None` for the other steps:
    /// a model call is made with [`model`](Self::model), calls of tools with [`decide`](Self::decide) and
    /// [`calls`](Self::calls), and a suspended run waits for an answer.
    pub async fn perform(&mut self, run: &Run) -> Option<Input> {
        match run.next() {
            Step::Gate { gate, .. } => {
                Some(gates::evaluate(gate, run, &self.config.hooks, &self.cancel).await)
            }
            Step::Reserve { history, route, tokens, reported, forced, .. } => {
                let listed = match target(&self.config, route) {
                    Ok((provider, model)) => {
                        listed_tools(&self.config, &self.tools, &self.prefixes, &history, &*provider, &model)
                    }
                    Err(_) => None,
                };
                let call = PlannedCall {
                    history: &history,
                    system_prompt: &self.system_prompt,
                    tools: listed.as_ref().unwrap_or_else(|| self.tools.definitions()),
                    route,
                    tokens,
                    reported,
                    forced,
                };
                let meter = self.budget.as_deref_mut();
                Some(BudgetMeter::reserve(meter, &self.config, call, &self.cancel).await)
            }
            Step::Sleep { delay_ms, .. } => {
                let sleep = self.config.services.environment.sleep(Duration::from_millis(delay_ms));
                let slept = tokio::select! {
                    biased;
                    () = sleep => true,
                    () = self.cancel.cancelled() => false,
                };
                Some(if slept { Input::Slept } else { Input::abort(None) })
            }
            Step::Compact { task, history, .. } => {
                self.prefixes.compacted();
                let meter = self.budget.as_deref();
                let span = spans::compaction(self.spans.as_deref(), &task);
                let compacted = compaction::compact(&self.config, meter, &self.cancel, task, &history);
                Some(compacted.instrument(span).await)
            }
            // The driver has applied the queued messages before.
            Step::ReadQueues { .. } => Some(Input::QueuesRead),
            Step::CallModel { .. } | Step::RunTools { .. } | Step::AwaitAnswer { .. } | Step::Done(_) => None,
        }
    }

    /// Prepares the model call of a [`Step::CallModel`]. `None` if that is not the next step of the run.
    #[must_use]
    pub fn model(&self, run: &Run) -> Option<ModelCall> {
        self.model_of(run, run.next()).map(|call| *call)
    }

    /// Like [`model`](Self::model) for a driver that has the next step at hand.
    /// The call is boxed, because the future of a run would reserve memory for it more than once.
    pub(crate) fn model_of(&self, run: &Run, step: Step) -> Option<Box<ModelCall>> {
        ModelCall::of(self, run, step).map(Box::new)
    }

    /// Calls the hooks that observe an event: `on_error`, `after_turn` and `after_loop`. Call it for each event after
    /// it was delivered. The events of other loops, for example of sub-agents, have no effect.
    pub fn observe(&self, run: &Run, event: &AgentEvent) {
        if event.loop_id() != run.loop_id() {
            return;
        }
        if let Some(observation) = Observation::of(event, &self.config.hooks, Some(run), run.has_started()) {
            observation.notify(&self.config.hooks);
        }
    }
}

impl std::fmt::Debug for Performer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Performer")
            .field("model", &self.config.model.id)
            .field("tools", &self.tools.len())
            .field("aborted", &self.aborted.is_cancelled())
            .finish_non_exhaustive()
    }
}
