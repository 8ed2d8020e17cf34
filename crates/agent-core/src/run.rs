//! The agent loop as a pure state machine.
//!
//! [`Run::next`] returns the next step to perform; [`Run::apply`] applies its result and emits the events it caused.
//! A `Run` is plain data without clock, socket or callback, so it can be cloned, compared, serialized and resumed in
//! another process.
//!
//! ```
//! use agent_core::run::{Input, Reply, Run, RunSetup, Step};
//! use agent_core::{AssistantMessage, Content, History, StopReason, Timestamp};
//!
//! let mut events = Vec::new();
//! let mut run = Run::start(RunSetup::new("s-1.demo.1"), History::new(), vec!["hello".into()], Timestamp(1), &mut events)?;
//! assert!(matches!(run.next(), Step::CallModel { .. }));
//!
//! let mut message = AssistantMessage::new("demo", "demo", StopReason::Stop);
//! message.content.push(Content::text("hi"));
//! run.apply(Timestamp(2), Input::ModelReplied { reply: Reply::new(message)? }, &mut events)?;
//! assert!(matches!(run.next(), Step::ReadQueues { .. }));
//! run.apply(Timestamp(2), Input::QueuesRead, &mut events)?;
//! assert!(matches!(run.next(), Step::Done(_)));
//! assert_eq!(run.history().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abort;
mod budget;
mod checkpoint;
mod child;
mod explicit_null;
pub(crate) mod form;
mod gate;
mod input;
mod model_call;
mod open_calls;
mod policy;
mod question_id;
mod queues;
mod refused;
mod repeats;
mod reply;
mod serial;
mod setup;
mod step;
mod tool_calls;
mod turn;
mod view;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::context::ContextTracker;
use crate::event::{AgentEnd, AgentEvent, Answer, Ended, Question};
use crate::fold::Fold;
use crate::history::{Entry, History, HistoryError};
use crate::identity::{QuestionId, Timestamp, ToolCallId, TurnId};
use crate::limits::{ExecutionLimits, ExecutionTracker};
use crate::message::{AgentMessage, DeferredCall, Usage};
use crate::route::LostRoutes;

pub use crate::event::{NewMessages, ReadMessagesError, StoredMessages};
pub use checkpoint::{KeptItems, RestoreError, RunCheckpoint};
pub use child::{ChildAnswer, ChildEnd, PendingChild, SuspendedChild};
pub use form::{Checkpoint, FORM, FormError, ReadError, Recorded};
pub use input::{
    AppliedInput, BudgetVerdict, Failure, GateVerdict, Input, InputVerdict, Misplaced, PartialReply, Reply,
    ReplyError, ToolChange, ToolOutcome, ToolQuestion, ToolVerdict,
};
pub use policy::{GRACE, LoopPolicy, MAX_CONTINUATIONS, MAX_REPEATS};
pub use queues::{QueueKind, QueueMode, Queued, SteeringPolicy};
pub use setup::{BudgetSetup, Gates, RunSetup};
pub use step::{CallStage, CompactionTask, Gate, PendingCall, Step};

use budget::BudgetState;
use open_calls::OpenCalls;
pub(crate) use question_id::child_prefix;
pub(crate) use queues::Queues;

/// The complete state of one run of the loop. [`Checkpoint`] writes it for another process.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "serial::RunForm", try_from = "serial::RunForm")]
pub struct Run {
    setup: Arc<RunSetup>,
    now: Timestamp,
    history: History,
    /// The messages of this run, in the order in which they ended.
    new_messages: NewMessages,
    /// The prompts that have not entered the history yet.
    prompts: Vec<Entry>,
    queues: Queues,
    tracker: ExecutionTracker,
    context: ContextTracker,
    usage: Usage,
    tool_usage: Usage,
    lost_routes: LostRoutes,
    budget: BudgetState,
    turn: Turn,
    phase: Phase,
    /// The number of events that the run has emitted.
    emitted: u64,
    /// The number of answers that the run has received, counted for child loops only.
    answers: u64,
}

/// Shows figures and ids, without the messages.
impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("loop_id", &self.setup.loop_id)
            .field("now", &self.now)
            .field("turn", &self.turn.index)
            .field("history", &self.history)
            .field("new_messages", &self.new_messages.len())
            .field("is_suspended", &self.is_suspended())
            .field("ended", &self.ended().is_some())
            .finish_non_exhaustive()
    }
}

/// The state of the open or next turn.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Turn {
    /// The index of the turn, from 0.
    index: u32,
    /// The number of model calls so far, including failed ones.
    #[serde(skip_serializing_if = "is_first")]
    attempt: u32,
    /// The route of the next call; 0 is the run's own model.
    #[serde(skip_serializing_if = "is_first")]
    route: u32,
    /// The number of retries on this route so far.
    #[serde(skip_serializing_if = "is_first")]
    retries: u32,
    /// The number of requests so far that continued a paused reply.
    #[serde(skip_serializing_if = "is_first")]
    continuations: u32,
    /// The provider's message about a context overflow that was answered by compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    overflow: Option<String>,
    /// Whether an empty reply to the results of tools was repeated in this turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    emptied: bool,
    /// Whether the context budget has been checked in this turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    compacted: bool,
    /// The tokens used in this turn.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    usage: Usage,
    /// The source of its messages besides steering.
    #[serde(skip_serializing_if = "Intake::is_nothing")]
    intake: Intake,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_first(route: &u32) -> bool {
    *route == 0
}

/// The source of the messages that open the next turn, besides prompts and steering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Intake {
    #[default]
    Nothing,
    FollowUp,
}

impl Intake {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// The input that the run waits for. A checkpoint has the same phases with another form of the open calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum Phase<Calls = Box<OpenCalls>> {
    /// The run waits for the verdict of a gate.
    Gate(GateAt),
    /// The run waits for an answer to a gate's question.
    GateAsked { gate: GateAt, question: Question },
    /// The run waits for a shorter history.
    Compacting(CompactionTask),
    /// The run waits for the budget's verdict on the next model call; `forced` if the user allowed it.
    Reserving {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
        forced: bool,
    },
    /// The run waits for an answer about a budget limit.
    BudgetAsked(Box<budget::Asked>),
    /// The run waits for a reply. `started` says whether its `MessageStart` has been emitted.
    Calling {
        started: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    /// The run waits for the end of the delay before the next attempt.
    Backoff(Retry),
    /// The run waits for the results of tool calls.
    Tools(Calls),
    /// The turn has ended, and the run waits for the messages that were queued until now. `results_wanted` says
    /// whether the model receives the results of the turn's calls in any case.
    BetweenTurns { results_wanted: bool },
    /// The run has ended.
    Done(Ended),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum GateAt {
    Loop,
    Input,
    Turn,
}

/// An announced retry whose result is not known yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Retry {
    attempt: u32,
    delay_ms: u64,
}

impl Run {
    /// Starts a run over `history` with these prompts; none for a continuation.
    ///
    /// # Errors
    /// Returns an error if a prompt cannot enter alone: a reply with calls, a failed reply, or a tool result.
    pub fn start(
        setup: impl Into<Arc<RunSetup>>,
        history: History,
        prompts: Vec<AgentMessage>,
        now: Timestamp,
        out: &mut Vec<AgentEvent>,
    ) -> Result<Self, HistoryError> {
        let entries = prompts.into_iter().map(Entry::from).collect();
        Self::start_counted(setup, history, entries, now, out)
    }

    /// Like [`start`](Self::start), with the token counts of the prompts.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn start_counted(
        setup: impl Into<Arc<RunSetup>>,
        history: History,
        prompts: Vec<Entry>,
        now: Timestamp,
        out: &mut Vec<AgentEvent>,
    ) -> Result<Self, HistoryError> {
        Self::start_queued(setup, history, prompts, Vec::new(), now, out)
    }

    /// Like [`start_counted`](Self::start_counted), with messages that are already queued, which the first turn may
    /// take. A queued message that cannot enter alone is dropped.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start).
    pub fn start_queued(
        setup: impl Into<Arc<RunSetup>>,
        history: History,
        prompts: Vec<Entry>,
        queued: Vec<Queued>,
        now: Timestamp,
        out: &mut Vec<AgentEvent>,
    ) -> Result<Self, HistoryError> {
        let setup = setup.into();
        prompts.iter().try_for_each(History::check_standalone)?;
        let limits = setup.policy.limits.unwrap_or_else(ExecutionLimits::unlimited);
        let mut run = Self {
            queues: Queues::new(setup.policy.steering_mode, setup.policy.follow_up_mode),
            tracker: ExecutionTracker::new(limits, now),
            context: ContextTracker::default(),
            setup,
            now,
            history,
            new_messages: NewMessages::default(),
            prompts,
            usage: Usage::default(),
            tool_usage: Usage::default(),
            lost_routes: LostRoutes::default(),
            budget: BudgetState::default(),
            turn: Turn::default(),
            phase: Phase::Gate(GateAt::Loop),
            emitted: 0,
            answers: 0,
        };
        for queued in queued {
            if History::check_standalone(&queued.entry).is_ok() {
                run.queues.push(queued);
            }
        }
        let before = out.len();
        if !run.setup.gates.before_loop {
            run.open_loop(out);
        }
        run.count(out.len() - before);
        Ok(run)
    }

    /// Returns the next step for the driver to perform. Does not change the run, so repeated calls return the same
    /// step.
    #[must_use]
    pub fn next(&self) -> Step {
        step::next(self)
    }

    /// Applies `input`, which happened at `now`, and appends the resulting events to `out`. The clock of a run does not go
    /// back: a time before that of the last input counts as the time of the last input.
    ///
    /// # Errors
    /// Returns [`Misplaced`] if the input does not match the current step. The run, including its clock, is unchanged
    /// then, and no event is emitted.
    pub fn apply(
        &mut self,
        now: Timestamp,
        input: Input,
        out: &mut Vec<AgentEvent>,
    ) -> Result<(), Misplaced> {
        let now = now.max(self.now);
        // The time for which the run waited for an answer does not count towards its maximum duration.
        let waited = if self.is_suspended() { now.millis_since(self.now) } else { 0 };
        let waited = self.tracker.waited_ms.saturating_add(waited);
        let waited_before = std::mem::replace(&mut self.tracker.waited_ms, waited);
        let (name, before) = (input.name(), std::mem::replace(&mut self.now, now));
        let known = out.len();
        apply(self, input, out).map_err(|reason| {
            self.now = before;
            self.tracker.waited_ms = waited_before;
            Misplaced { input: name, reason }
        })?;
        self.count(out.len() - known);
        Ok(())
    }

    /// Counts events that the run has emitted. It emits no live ones.
    fn count(&mut self, events: usize) {
        self.emitted = self.emitted.saturating_add(events as u64);
    }

    /// Checks whether the run would accept the input now.
    pub(crate) fn check(&self, now: Timestamp, input: &Input) -> Result<(), Misplaced> {
        self.clone().apply(now, input.clone(), &mut Vec::new())
    }

    /// Returns the state of the run without its setup and its messages. [`restore`](Self::restore) rebuilds the run
    /// from it.
    #[must_use]
    pub fn checkpoint(&self) -> RunCheckpoint {
        RunCheckpoint::of(self)
    }

    /// Rebuilds a run from a checkpoint, its setup, and the fold of the conversation before it and all its events so
    /// far.
    ///
    /// # Errors
    /// Returns [`RestoreError`] if the checkpoint does not belong to the folded events.
    pub fn restore(
        setup: impl Into<Arc<RunSetup>>,
        checkpoint: RunCheckpoint,
        fold: &Fold,
    ) -> Result<Self, RestoreError> {
        checkpoint.restore(setup.into(), fold)
    }

    /// Drops the messages of the run that compactions removed from its history, for a run whose journal has them. From
    /// then on [`NewMessages::read`] reads them from `stored`.
    ///
    /// The driver calls this after each compaction, and when it resumes the run, if the journal of the run can read its
    /// messages back.
    pub fn release_messages(&mut self, stored: Arc<dyn StoredMessages>) {
        let open = match &self.phase {
            Phase::Tools(open) => Some(open.reply.shared()),
            _ => None,
        };
        self.new_messages.release(self.history.entries().map(Entry::shared).chain(open), stored);
    }

    /// Returns a copy that does not share the list of messages, so that the next message copies none of it.
    /// [`with_messages_of`](Self::with_messages_of) completes the copy.
    pub(crate) fn without_messages(&self) -> Self {
        Self { new_messages: self.new_messages.emptied(), ..self.clone() }
    }

    /// Completes a copy with the messages of the same run at a later time.
    pub(crate) fn with_messages_of(mut self, later: &Self) -> Self {
        self.new_messages = later.new_messages.first(self.new_messages.len());
        self
    }

    /// Returns the run before its first event, without its prompts. The run must not have performed a step.
    pub(crate) fn before_start(&self) -> Self {
        let before = self.history.len().saturating_sub(self.new_messages.len());
        let mut run = self.clone();
        if let Ok(history) = self.history.rewound(before, Vec::new()) {
            run.history = history;
        }
        (run.new_messages, run.emitted) = (NewMessages::default(), 0);
        run
    }

    /// Ends the run, for example because its record cannot be written, and returns the event of its end. It has the messages
    /// that the run had before; those that close open calls enter the history only.
    pub(crate) fn cut_off(&mut self, now: Timestamp, reason: &str) -> Option<AgentEvent> {
        let (messages, mut events) = (self.new_messages.clone(), Vec::new());
        // The second abort closes the calls that no task executes.
        for _ in 0..2 {
            if self.ended().is_none() {
                let _ = self.apply(
                    now,
                    Input::Abort { partial: None, interrupted: Some(reason.to_owned()) },
                    &mut events,
                );
            }
        }
        events.into_iter().rev().find_map(|event| match event {
            AgentEvent::AgentEnd(mut end) => {
                end.messages = messages.clone();
                Some(AgentEvent::AgentEnd(end))
            }
            _ => None,
        })
    }

    /// Returns the number of the last event that the run has emitted.
    pub(crate) fn event_number(&self) -> u64 {
        self.emitted
    }

    fn turn_id(&self) -> TurnId {
        TurnId { loop_id: self.setup.loop_id.clone(), turn_index: self.turn.index }
    }

    fn emit_question(&self, question: &Question, out: &mut Vec<AgentEvent>) {
        let loop_id = self.setup.loop_id.clone();
        out.push(AgentEvent::QuestionAsked { loop_id, question: question.clone() });
    }

    fn emit_answered(&self, id: &QuestionId, answer: Answer, out: &mut Vec<AgentEvent>) {
        let loop_id = self.setup.loop_id.clone();
        out.push(AgentEvent::QuestionAnswered { loop_id, question_id: id.clone(), answer });
    }

    /// Emits the start and the end of a complete message and adds it to the messages of this run.
    fn emit_message(&mut self, entry: &Entry, out: &mut Vec<AgentEvent>) {
        let message = entry.shared().clone();
        out.push(AgentEvent::MessageStart { loop_id: self.setup.loop_id.clone(), message });
        self.emit_message_end(entry, out);
    }

    fn emit_message_end(&mut self, entry: &Entry, out: &mut Vec<AgentEvent>) {
        out.push(AgentEvent::MessageEnd {
            loop_id: self.setup.loop_id.clone(),
            message: entry.shared().clone(),
            tokens: entry.tokens(),
            superseded: false,
        });
        self.new_messages.push(entry.shared().clone());
    }

    /// Returns the entry with the current time and turn, for a message that enters the history now.
    fn stamped(&self, mut entry: Entry) -> Entry {
        let message = entry.message_mut();
        message.stamp(self.now);
        if let AgentMessage::Llm(m) = message
            && m.turn_id.is_none()
        {
            m.turn_id = Some(self.turn_id());
        }
        entry
    }

    /// Returns the deferred calls that have no result, neither in the history nor queued. Includes those of a reply whose
    /// other calls have not ended.
    #[must_use]
    pub fn deferred(&self) -> Vec<DeferredCall> {
        let mut calls = self.history.deferred();
        if let Phase::Tools(open) = &self.phase {
            calls.extend(open.deferred());
        }
        calls.retain(|call| !self.queues.completes(&call.tool_call_id));
        calls
    }

    /// Returns the calls that have started and not ended.
    pub(crate) fn started_calls(&self) -> impl Iterator<Item = &ToolCallId> {
        let open = if let Phase::Tools(open) = &self.phase { Some(open) } else { None };
        open.into_iter().flat_map(|open| open.started())
    }

    /// Checks that the result of a call can be queued: the call is deferred, or it has not ended, and it has no result.
    fn check_completion(&self, id: &ToolCallId) -> Result<(), HistoryError> {
        if self.queues.completes(id) {
            return Err(HistoryError::AlreadyCompleted(id.clone()));
        }
        match &self.phase {
            Phase::Tools(open) if open.may_be_deferred(id) => Ok(()),
            _ => self.history.check_completion(id),
        }
    }

    /// Ends the run. The turn must be closed.
    fn end(&mut self, ended: Ended, out: &mut Vec<AgentEvent>) {
        // Results of deferred calls enter even if no further turn follows, because nothing would deliver them again.
        if self.has_started() {
            for queued in self.queues.take_completions() {
                self.enter(queued.entry, out);
            }
        }
        out.push(AgentEvent::AgentEnd(Box::new(AgentEnd {
            loop_id: self.setup.loop_id.clone(),
            messages: self.new_messages.clone(),
            usage: self.usage,
            tool_usage: self.tool_usage,
            spent: self.spent().map(Box::new),
            ended: ended.clone(),
            timestamp: self.now,
        })));
        self.phase = Phase::Done(ended);
    }
}

/// The reason for which a run rejects an input.
type Refusal = String;

/// Applies an input. Each handler checks its input completely before it changes the run.
fn apply(run: &mut Run, input: Input, out: &mut Vec<AgentEvent>) -> Result<(), Refusal> {
    if let Phase::Done(_) = run.phase {
        return Err("the run has ended".into());
    }
    match input {
        Input::Queue { queued } => {
            History::check_standalone(&queued.entry).map_err(|e| e.to_string())?;
            if let Some(call) = queued.completes() {
                run.check_completion(&call.tool_call_id).map_err(|e| e.to_string())?;
            }
            run.queues.push(queued);
            tool_calls::skip_if_steered(run, out);
            Ok(())
        }
        Input::ClearQueue { kind } => {
            run.queues.clear(kind);
            Ok(())
        }
        Input::SetQueueMode { kind, mode } => {
            run.queues.set_mode(kind, mode);
            Ok(())
        }
        Input::Abort { partial, interrupted } => {
            let cause = interrupted.map_or(abort::Cause::Caller, abort::Cause::Interrupted);
            abort::abort(run, partial, cause, out);
            Ok(())
        }
        Input::TimeUp { partial } => {
            abort::abort(run, partial, abort::Cause::TimeUp, out);
            Ok(())
        }
        Input::GateDecided { verdict } => gate::decided(run, verdict, out),
        Input::Filtered { verdict } => gate::filtered(run, verdict, out),
        Input::BudgetDecided { verdict } => budget::decided(run, verdict, out),
        Input::ReplyStarted => model_call::started(run, out),
        Input::CacheBroke { found } => model_call::cache_broke(run, found, out),
        Input::ModelReplied { reply } => model_call::replied(run, reply, out),
        Input::ModelFailed { failure, partial } => model_call::failed(run, &failure, partial, out),
        Input::Slept => model_call::slept(run),
        Input::QueuesRead => turn::queues_read(run, out),
        Input::ToolBegan { id, verdict } => tool_calls::began(run, &id, verdict, out),
        Input::ToolEnded { id, outcome } => tool_calls::ended(run, &id, *outcome, out),
        Input::ChildSuspended { id, child } => child::suspended(run, &id, *child, out),
        Input::ToolReviewed { id, change } => tool_calls::reviewed(run, &id, *change, out),
        Input::Compacted { splices, usage, fallback } => {
            model_call::compacted(run, splices, usage, fallback, out)
        }
        Input::Idle { .. } if run.is_suspended() => Err("the run waits for an answer".into()),
        Input::Idle { ms } => {
            run.tracker.waited_ms = run.tracker.waited_ms.saturating_add(ms);
            Ok(())
        }
        Input::Suspended if !run.is_suspended() => Err("no question is open".into()),
        Input::Suspended => {
            let loop_id = run.setup.loop_id.clone();
            out.push(AgentEvent::RunSuspended { loop_id, questions: run.questions() });
            Ok(())
        }
        Input::CompactionFailed { message } => model_call::compaction_failed(run, message, out),
        Input::Answer { question_id: id, answer } => {
            match &run.phase {
                Phase::GateAsked { .. } => gate::answered(run, &id, answer, out)?,
                Phase::BudgetAsked(_) => budget::answered(run, &id, &answer, out)?,
                Phase::Tools(_) => tool_calls::answered(run, &id, answer, out)?,
                _ => return Err("no question is open".into()),
            }
            // The parent of the loop compares the number with the answers that it has given.
            run.answers = run.answers.saturating_add(u64::from(run.setup.depth > 0));
            Ok(())
        }
    }
}
