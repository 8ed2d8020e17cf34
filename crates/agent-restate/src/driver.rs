//! Performs the steps of a run for the session, and applies recorded steps again in a replay.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent_core::drive::GroupLoop;
use agent_core::drive::perform::{CallProgress, Decision, Live, Performer, ReadyCall};
use agent_core::event::{Answer, NumberedEvent};
use agent_core::fold::{Fold, FoldError};
use agent_core::history::{Entry, History, MessageRef};
use agent_core::identity::{LoopId, QuestionId};
use agent_core::journal::{AppliedInput, Durability};
use agent_core::message::AgentMessage;
use agent_core::parallel::ParallelError;
use agent_core::run::{Input, Misplaced, PendingCall, QueueKind, Queued, RestoreError, Run, RunSetup, Step};
use agent_core::{AgentEvent, CancellationToken};
use bytes::Bytes;

use crate::agent::{LiveEvent, Prepared};
use crate::error::Refusal;
use crate::record::{FORM, Flow, Item, Mail, StartRecord, StepRecord};
use crate::running::{RunningSession, SharedEvents};

/// What the session asks for in a step.
#[derive(Debug)]
pub(crate) enum Work {
    /// Start the run with these prompts.
    Start { setup: Box<RunSetup>, prompts: Vec<AgentMessage> },
    /// Continue the run.
    Step,
    /// Apply the answer first.
    Answer { question: QuestionId, answer: Answer },
    /// Abort the run.
    Abort,
    /// A delay is over.
    Slept,
    /// Execute the calls whose start is recorded under this nonce.
    Execute { nonce: String },
}

/// A step could not be performed, or its record could not be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error("the run refused the result of its own step: {0}")]
    Misplaced(#[from] Misplaced),
    #[error("a recorded step has form {found}, and this version reads form {FORM}; {}", advice(*.found))]
    Form { found: u32 },
    #[error("a recorded step cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error("the step has no run")]
    NoRun,
    #[error("the group was started with other branches; let a worker with the same branches finish it: {0}")]
    Branches(#[from] ParallelError),
}

/// Checks that this version reads a record.
pub(crate) fn check_form(record: &Bytes) -> Result<(), StepError> {
    #[derive(serde::Deserialize)]
    struct Head {
        form: u32,
    }
    match serde_json::from_slice(record)? {
        Head { form: FORM } => Ok(()),
        Head { form: found } => Err(StepError::Form { found }),
    }
}

fn advice(found: u32) -> &'static str {
    if found > FORM {
        "update looptree-restate on this worker"
    } else {
        "let a worker with the version that wrote it finish the invocation"
    }
}

/// What the session learns from the record of a step.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) mails: usize,
    pub(crate) flow: Flow,
}

/// Drives one run in one attempt of one invocation.
pub(crate) struct Driver {
    agent: Arc<Prepared>,
    session: String,
    performer: Performer,
    run: Option<Run>,
    /// The conversation before the run, for its start.
    base: History,
    /// Whether the engine waits for long delays. Members of a group wait in their step.
    engine_waits: bool,
    /// Unique for each attempt: tells the attempt that recorded the start of a call from the next one.
    nonce: String,
    /// Whether this attempt has performed a step, so that the budget accounts of the run are open.
    open: bool,
    /// The calls whose start is recorded under the nonce of this attempt.
    ready: Vec<ReadyCall>,
    /// What the open step has recorded so far.
    items: Vec<Item>,
    start: Option<Box<StartRecord>>,
    /// The events of the open step, which are not recorded yet.
    fresh: Vec<NumberedEvent>,
    /// The recorded events that are not stored yet.
    events: SharedEvents,
    /// The result of a step of this attempt that the engine has not confirmed yet.
    proposed: Option<Accepted>,
    step: u32,
    delivered: u64,
}

impl Driver {
    /// Creates a driver that starts a run after this conversation.
    pub(crate) fn starting(agent: Arc<Prepared>, session: String, base: History) -> Self {
        Self::of_agent(agent, session, None, base)
    }

    /// Creates a driver for an open run.
    pub(crate) fn resuming(agent: Arc<Prepared>, session: String, run: Run) -> Self {
        Self::of_agent(agent, session, Some(run), History::new())
    }

    /// Creates a driver that starts the loop of a branch, or continues its run. Cancelling the token aborts its run.
    pub(crate) fn member(
        agent: Arc<Prepared>,
        session: String,
        planned: &GroupLoop,
        run: Option<Run>,
        cancel: CancellationToken,
    ) -> Self {
        let (performer, base) = (planned.performer(cancel), planned.context.history.clone());
        Self { engine_waits: false, ..Self::new(agent, session, performer, run, base) }
    }

    fn of_agent(agent: Arc<Prepared>, session: String, run: Option<Run>, base: History) -> Self {
        let performer =
            Performer::new(Arc::clone(&agent.config), agent.tools.clone(), Arc::clone(&agent.system_prompt));
        Self::new(agent, session, performer, run, base)
    }

    fn new(
        agent: Arc<Prepared>,
        session: String,
        performer: Performer,
        run: Option<Run>,
        base: History,
    ) -> Self {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        Self {
            agent,
            session,
            performer,
            run,
            base,
            engine_waits: true,
            nonce,
            open: false,
            ready: Vec::new(),
            items: Vec::new(),
            start: None,
            fresh: Vec::new(),
            events: SharedEvents::default(),
            proposed: None,
            step: 0,
            delivered: 0,
        }
    }

    /// Returns the run; `None` before its first step.
    pub(crate) fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Returns the recorded events that are not stored yet, as a list that grows with each accepted step.
    pub(crate) fn events(&self) -> &SharedEvents {
        &self.events
    }

    /// Returns what this process knows of the session while the invocation drives it. The session has so many events before.
    pub(crate) fn running(&self, invocation: &str, first: u64) -> RunningSession {
        RunningSession {
            invocation: invocation.to_owned(),
            attempt: self.nonce.clone(),
            cancel: self.performer.cancel_token().clone(),
            first,
            events: Arc::clone(&self.events),
        }
    }

    /// Returns the setup of a new run.
    pub(crate) fn setup(&self, loop_id: LoopId) -> RunSetup {
        self.performer.setup(self.agent.name.as_str().into(), self.session.as_str().into(), loop_id)
    }

    /// Returns the name of the next step: the same in every attempt.
    pub(crate) fn step_name(&self) -> String {
        let at = self.step;
        match self.run.as_ref().map(Run::next) {
            None => format!("{at} start"),
            Some(
                Step::Gate { key, .. }
                | Step::CallModel { key, .. }
                | Step::Reserve { key, .. }
                | Step::Sleep { key, .. }
                | Step::RunTools { key, .. }
                | Step::Compact { key, .. },
            ) => format!("{at} {}", key.as_str()),
            Some(_) => format!("{at} settle"),
        }
    }

    /// Performs a step and returns its record as JSON.
    pub(crate) async fn perform(&mut self, work: Work, mails: Vec<Mail>) -> Result<Bytes, StepError> {
        self.items.clear();
        self.fresh.clear();
        if !self.open
            && let Some(run) = &self.run
        {
            self.performer.open(run);
        }
        self.open = true;
        let count = mails.len();
        let flow = self.perform_within_limits(work, mails).await?;
        if matches!(flow, Flow::Suspended | Flow::Ended) {
            self.flush_budget().await;
        }
        let record = StepRecord {
            form: FORM,
            mails: count,
            start: self.start.take(),
            items: std::mem::take(&mut self.items),
            flow: flow.clone(),
        };
        let text = serde_json::to_vec(&record)?;
        self.proposed = Some(Accepted { mails: count, flow });
        Ok(text.into())
    }

    /// Accepts the record that the engine returns: of the step that was just performed, or in a replay of one that an
    /// earlier attempt performed.
    pub(crate) fn accept(&mut self, record: &Bytes) -> Result<Accepted, StepError> {
        let accepted = match self.proposed.take() {
            Some(accepted) => accepted,
            None => self.replay(record)?,
        };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.fresh);
        self.step += 1;
        Ok(accepted)
    }

    fn replay(&mut self, record: &Bytes) -> Result<Accepted, StepError> {
        check_form(record)?;
        let record: StepRecord = serde_json::from_slice(record)?;
        if let Some(start) = record.start {
            let StartRecord { setup, checkpoint, events } = *start;
            let mut fold = Fold::new(self.base.clone());
            events.iter().try_for_each(|event| fold.push(event))?;
            let run = Run::restore(setup, checkpoint, &fold)?;
            self.fresh.extend(run.numbered(events));
            self.run = Some(run);
        }
        for item in record.items {
            match item {
                Item::Child(event) => self.fresh.push(*event),
                Item::Input(AppliedInput { now, input }) => {
                    let run = self.run.as_mut().ok_or(StepError::NoRun)?;
                    let mut events = Vec::new();
                    run.apply(now, input, &mut events)?;
                    self.fresh.extend(run.numbered(events));
                }
            }
        }
        Ok(Accepted { mails: record.mails, flow: record.flow })
    }

    /// Performs a step and ends it when the maximum duration of the run has passed, or before the engine gives the step up:
    /// it would be repeated and given up without an end.
    async fn perform_within_limits(&mut self, work: Work, mails: Vec<Mail>) -> Result<Flow, StepError> {
        let left = self.run.as_ref().and_then(|run| run.time_left(run.now()));
        let left = left.or_else(|| {
            let limits = self.performer.config.policy.limits.as_ref();
            self.run.is_none().then(|| limits.and_then(|limits| limits.max_duration)).flatten()
        });
        let longest = self.agent.longest_step.saturating_mul(2);
        let left = left.map_or(longest, |left| left.min(longest));
        let mut time_up = Some(self.performer.config.services.environment.deadline(left));
        let token = self.performer.step_token().clone();
        let mut steps = pin!(self.perform_work(work, mails));
        poll_fn(|cx| {
            if time_up.as_mut().is_some_and(|time_up| time_up.as_mut().poll(cx).is_ready()) {
                time_up = None;
                token.cancel();
            }
            steps.as_mut().poll(cx)
        })
        .await
    }

    /// Reports what the run has spent to an account outside of the process.
    async fn flush_budget(&self) {
        if let Some(budget) = self.performer.config.services.budget.as_ref()
            && let Err(error) = budget.flush().await
        {
            tracing::warn!(%error, "the spending of a run has not been reported; it is reported later");
        }
    }

    async fn perform_work(&mut self, work: Work, mails: Vec<Mail>) -> Result<Flow, StepError> {
        match work {
            Work::Start { setup, prompts } => {
                let mut events = Vec::new();
                let setup_of_run = (*setup).clone();
                let base = self.base.clone();
                let run = match self.performer.start(*setup, base, prompts, &mut events) {
                    Ok(run) => run,
                    Err(error) => {
                        return Ok(Flow::Refused { refusal: Refusal::Prompt { reason: error.to_string() } });
                    }
                };
                let checkpoint = run.checkpoint();
                let record = StartRecord { setup: setup_of_run, checkpoint, events: events.clone() };
                self.start = Some(Box::new(record));
                self.run = Some(run);
                self.deliver(events);
            }
            Work::Answer { question, answer } => {
                let open =
                    self.run.as_ref().is_some_and(|run| run.questions().iter().any(|q| q.id == question));
                if !open {
                    return Ok(Flow::Refused { refusal: Refusal::NotAsked { question } });
                }
                match self.apply(Input::Answer { question_id: question, answer }) {
                    Err(StepError::Misplaced(misplaced)) => {
                        let reason = misplaced.to_string();
                        return Ok(Flow::Refused { refusal: Refusal::Answer { reason } });
                    }
                    other => other?,
                }
            }
            Work::Abort => self.performer.cancel_token().cancel(),
            Work::Slept => self.apply_lenient(Input::Slept)?,
            Work::Execute { nonce } => {
                self.apply_mails(mails)?;
                let ready = std::mem::take(&mut self.ready);
                if nonce == self.nonce && !ready.is_empty() {
                    self.execute(ready).await?;
                    return Ok(Flow::Step);
                }
                // Another attempt recorded the start of these calls and may have executed them. The run decides.
                return self.advance().await;
            }
            Work::Step => {}
        }
        self.apply_mails(mails)?;
        self.advance().await
    }

    /// Performs the steps of the run up to the first one whose result must be recorded before anything else happens.
    async fn advance(&mut self) -> Result<Flow, StepError> {
        loop {
            self.apply_queued()?;
            let Some(run) = &self.run else { return Err(StepError::NoRun) };
            if let Some(abort) = self.performer.interruption(run) {
                self.apply(abort)?;
                continue;
            }
            match run.next() {
                Step::Done(_) => return Ok(Flow::Ended),
                Step::AwaitAnswer { .. } => {
                    self.apply(Input::Suspended)?;
                    return Ok(Flow::Suspended);
                }
                Step::CallModel { .. } => {
                    self.call_model().await?;
                    return Ok(Flow::Step);
                }
                Step::RunTools { calls, .. } => return self.run_tools(calls).await,
                Step::Sleep { delay_ms, .. }
                    if self.engine_waits
                        && Duration::from_millis(delay_ms) >= self.agent.engine_waits_from =>
                {
                    return Ok(Flow::Sleep { delay_ms });
                }
                step => {
                    let ends = matches!(step, Step::Compact { .. });
                    drop(step);
                    if let Some(input) = self.performer.perform(run).await {
                        self.apply(input)?;
                    }
                    // A compaction may have called a model.
                    if ends {
                        return Ok(Flow::Step);
                    }
                }
            }
        }
    }

    async fn call_model(&mut self) -> Result<(), StepError> {
        let Some(run) = &self.run else { return Err(StepError::NoRun) };
        let Some(call) = self.performer.model(run) else { return Ok(()) };
        let mut started = Ok(());
        let inputs = call
            .perform(|live| match live {
                Live::Started(input) => started = self.apply(input),
                Live::Update(event) => self.deliver_live(event),
                _ => {}
            })
            .await;
        started?;
        self.apply_queued()?;
        inputs.into_iter().try_for_each(|input| self.apply(input))
    }

    /// Decides about the calls of a group. Executes them unless one of them must not run twice: then the start of the
    /// calls is recorded first.
    async fn run_tools(&mut self, pending: Vec<PendingCall>) -> Result<Flow, StepError> {
        let (mut ready, mut once) = (Vec::new(), false);
        for pending in pending {
            let Some(run) = &self.run else { return Err(StepError::NoRun) };
            match self.performer.decide(run, &pending).await {
                Some(Decision::Execute(input, call)) => {
                    once |= call.durability() == Durability::Flushed;
                    self.apply(input)?;
                    ready.push(*call);
                }
                Some(Decision::Apply(input)) => self.apply(input)?,
                _ => break,
            }
        }
        if once {
            self.ready = ready;
            return Ok(Flow::Began { nonce: self.nonce.clone() });
        }
        self.execute(ready).await?;
        Ok(Flow::Step)
    }

    async fn execute(&mut self, ready: Vec<ReadyCall>) -> Result<(), StepError> {
        let mut calls = self.performer.calls(ready);
        loop {
            let Some(run) = &self.run else { return Err(StepError::NoRun) };
            let Some(progress) = calls.next(run).await else { return Ok(()) };
            match progress {
                CallProgress::Update(event) => self.deliver_live(event),
                CallProgress::Child(event) => self.deliver_child(*event),
                CallProgress::Ended(input, id) => {
                    self.apply_queued()?;
                    self.apply(input)?;
                    let Some(run) = &self.run else { return Err(StepError::NoRun) };
                    if let Some(review) = self.performer.review(run, &id).await {
                        self.apply(review)?;
                    }
                }
                CallProgress::Apply(input) => self.apply(input)?,
                _ => {}
            }
        }
    }

    /// Applies an input, records it, and delivers its events on this worker.
    fn apply(&mut self, input: Input) -> Result<(), StepError> {
        let Some(run) = &mut self.run else { return Err(StepError::NoRun) };
        let idle = self.performer.idle(run);
        let mut events = Vec::new();
        for applied in idle.into_iter().chain([self.performer.stamp(input)]) {
            self.performer.apply(run, applied.clone(), &mut events)?;
            self.items.push(Item::Input(applied));
        }
        self.deliver(events);
        Ok(())
    }

    /// Applies an input from outside, which the run may refuse, for example because it is late.
    fn apply_lenient(&mut self, input: Input) -> Result<(), StepError> {
        match self.apply(input) {
            Err(StepError::Misplaced(misplaced)) => {
                tracing::warn!(%misplaced, session = %self.session, "a message to the session was refused");
                Ok(())
            }
            other => other,
        }
    }

    fn apply_mails(&mut self, mails: Vec<Mail>) -> Result<(), StepError> {
        for mail in mails {
            let (kind, message) = match mail {
                Mail::Steer(message) => (QueueKind::Steering, message),
                Mail::FollowUp(message) => (QueueKind::FollowUp, message),
                Mail::Abort => {
                    self.performer.cancel_token().cancel();
                    continue;
                }
            };
            let tokens = self.performer.config.services.token_counter.count_message(&message);
            let queued = Queued::new(kind, Entry::new(MessageRef::new(message), tokens));
            self.apply_lenient(Input::Queue { queued })?;
        }
        Ok(())
    }

    /// Applies the messages of the configured sources. A run that has ended accepts none.
    fn apply_queued(&mut self) -> Result<(), StepError> {
        if self.run.as_ref().is_some_and(|run| run.ended().is_none()) {
            self.performer.queued().into_iter().try_for_each(|input| self.apply_lenient(input))?;
        }
        Ok(())
    }

    fn deliver(&mut self, events: Vec<AgentEvent>) {
        let Some(run) = &self.run else { return };
        let numbered = run.numbered(events);
        for event in numbered {
            self.listen(&event);
            if let Some(run) = &self.run {
                self.performer.observe(run, &event.event);
            }
            self.fresh.push(event);
        }
    }

    fn deliver_live(&mut self, event: AgentEvent) {
        if self.agent.listener.is_some()
            && let Some(run) = &self.run
        {
            let event = NumberedEvent::new(run.event_count(), event);
            self.listen(&event);
        }
    }

    fn deliver_child(&mut self, event: NumberedEvent) {
        self.listen(&event);
        if !event.is_live() {
            self.items.push(Item::Child(Box::new(event.clone())));
            self.fresh.push(event);
        }
    }

    fn listen(&mut self, event: &NumberedEvent) {
        if let Some(listener) = &self.agent.listener {
            let (session, attempt) = (self.session.as_str(), self.nonce.as_str());
            listener(&LiveEvent { session, step: self.step, attempt, index: self.delivered, event });
            self.delivered += 1;
        }
    }
}
