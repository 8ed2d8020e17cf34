//! The loop as a pure step function.
//!
//! [`Run::next`] says what is to be done, a shell does it, and [`Run::apply`] takes in what came of it and says what
//! happened. A `Run` is plain data: it holds no clock, no socket and no callback, so it can be cloned, compared, written
//! down and continued elsewhere.
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
//! assert!(matches!(run.next(), Step::Done(_)));
//! assert_eq!(run.history().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abort;
mod budget;
mod checkpoint;
mod explicit_null;
mod gate;
mod input;
mod model_call;
mod open_calls;
mod queues;
mod reply;
mod setup;
mod step;
mod tool_calls;
mod turn;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::context::ContextTracker;
use crate::event::{AgentEnd, AgentEvent, Ended, Question};
use crate::fold::Fold;
use crate::history::{Entry, History, HistoryError, MessageRef};
use crate::identity::{Timestamp, TurnId};
use crate::limits::{ExecutionLimits, ExecutionTracker};
use crate::message::{AgentMessage, Usage};
use crate::route::LostRoutes;

pub use checkpoint::{RestoreError, RunCheckpoint};
pub use input::{
    BudgetVerdict, Failure, GateVerdict, Input, InputVerdict, PartialReply, Reply, ReplyError, ToolChange,
    ToolOutcome, ToolVerdict,
};
pub use queues::{QueueKind, QueueMode, Queued, SteeringPolicy};
pub use setup::{BudgetSetup, Gates, RunSetup};
pub use step::{CallStage, CompactionTask, Gate, PendingCall, Step};

use budget::BudgetState;
use open_calls::OpenCalls;
pub(crate) use queues::Queues;

/// A run of the loop: its whole state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    setup: Arc<RunSetup>,
    now: Timestamp,
    history: History,
    /// The messages of this run, in the order of their ends.
    new_messages: Arc<Vec<MessageRef>>,
    /// Prompts that have not entered yet.
    prompts: Vec<Entry>,
    queues: Queues,
    tracker: ExecutionTracker,
    context: ContextTracker,
    usage: Usage,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    tool_usage: Usage,
    #[serde(default, skip_serializing_if = "LostRoutes::is_empty")]
    lost_routes: LostRoutes,
    #[serde(default, skip_serializing_if = "BudgetState::is_empty")]
    budget: BudgetState,
    turn: Turn,
    phase: Phase,
}

/// What is known of the turn that is open, or about to be.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Turn {
    /// From 0.
    index: u32,
    /// Calls of the model so far, failed ones included.
    attempt: u32,
    /// Who is called: 0 is the run's own model.
    #[serde(skip_serializing_if = "is_first")]
    route: u32,
    /// Retries on this route so far.
    #[serde(skip_serializing_if = "is_first")]
    retries: u32,
    /// What the provider said of an overflow, once it has been answered by compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    overflow: Option<String>,
    /// Whether the budget has been looked at.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    compacted: bool,
    /// Tokens of this turn.
    #[serde(skip_serializing_if = "Usage::is_zero")]
    usage: Usage,
    /// Where its messages come from besides steering.
    intake: Intake,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_first(route: &u32) -> bool {
    *route == 0
}

/// Which messages open the next turn, besides prompts and steering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Intake {
    #[default]
    Nothing,
    FollowUp,
}

/// What the run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    /// A gate's verdict.
    Gate(GateAt),
    /// An answer about a gate.
    GateAsked { gate: GateAt, question: Question },
    /// A shorter history.
    Compacting(CompactionTask),
    /// What a budget says of the next call of the model; `forced` where a person allowed it.
    Reserving { retry: Option<Retry>, forced: bool },
    /// An answer about a limit of the budget.
    BudgetAsked(Box<budget::Asked>),
    /// A reply. `started` says whether its `MessageStart` has been said.
    Calling { started: bool, retry: Option<Retry> },
    /// The end of a wait before the next attempt.
    Backoff(Retry),
    /// The ends of tool calls.
    Tools(Box<OpenCalls>),
    /// Nothing more.
    Done(Ended),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum GateAt {
    Loop,
    Input,
    Turn,
}

/// An announced retry whose outcome is not known yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Retry {
    attempt: u32,
    delay_ms: u64,
}

/// An input that does not fit what the run waits for. Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the input {input} does not fit here: {reason}")]
#[non_exhaustive]
pub struct Misplaced {
    /// The input.
    pub input: &'static str,
    /// Why it does not fit.
    pub reason: String,
}

impl Run {
    /// Begins a run over `history` with these prompts (none for a continuation).
    ///
    /// # Errors
    /// When a prompt is not a message that may enter alone: a reply with calls, a failed reply, a bare result.
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

    /// Like [`start`](Self::start), with the prompts' token counts.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_counted(
        setup: impl Into<Arc<RunSetup>>,
        history: History,
        prompts: Vec<Entry>,
        now: Timestamp,
        out: &mut Vec<AgentEvent>,
    ) -> Result<Self, HistoryError> {
        Self::start_queued(setup, history, prompts, Vec::new(), now, out)
    }

    /// Like [`start_counted`](Self::start_counted), with messages that wait already: the first turn may take of them
    /// (REQ-087). A queued message that may not enter alone is left out.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_queued(
        setup: impl Into<Arc<RunSetup>>,
        history: History,
        prompts: Vec<Entry>,
        queued: Vec<Queued>,
        now: Timestamp,
        out: &mut Vec<AgentEvent>,
    ) -> Result<Self, HistoryError> {
        let setup = setup.into();
        prompts.iter().try_for_each(History::may_enter_alone)?;
        let limits = setup.limits.unwrap_or_else(ExecutionLimits::unlimited);
        let mut run = Self {
            queues: Queues::new(setup.steering_mode, setup.follow_up_mode),
            tracker: ExecutionTracker::new(limits, now),
            context: ContextTracker::default(),
            setup,
            now,
            history,
            new_messages: Arc::default(),
            prompts,
            usage: Usage::default(),
            tool_usage: Usage::default(),
            lost_routes: LostRoutes::default(),
            budget: BudgetState::default(),
            turn: Turn::default(),
            phase: Phase::Gate(GateAt::Loop),
        };
        for queued in queued {
            if History::may_enter_alone(&queued.entry).is_ok() {
                run.queues.push(queued);
            }
        }
        if !run.setup.gates.before_loop {
            run.open_loop(out);
        }
        Ok(run)
    }

    /// What is to be done now. Reads only: asking twice gives the same.
    #[must_use]
    pub fn next(&self) -> Step {
        step::next(self)
    }

    /// Takes in what happened at `now` and appends what the run says to `out`.
    ///
    /// # Errors
    /// When the input does not fit what the run waits for. Then nothing is changed, the clock included, and nothing
    /// is said.
    pub fn apply(
        &mut self,
        now: Timestamp,
        input: Input,
        out: &mut Vec<AgentEvent>,
    ) -> Result<(), Misplaced> {
        apply(self, now, input, out)
    }

    /// Returns the state of the run without its setup and its messages. [`restore`](Self::restore) rebuilds the run from it.
    #[must_use]
    pub fn checkpoint(&self) -> RunCheckpoint {
        RunCheckpoint::of(self)
    }

    /// Rebuilds a run from a checkpoint, its setup, and the fold of the conversation before it and all its events so far.
    ///
    /// # Errors
    /// [`RestoreError`] if the checkpoint does not belong to the folded events.
    pub fn restore(
        setup: impl Into<Arc<RunSetup>>,
        checkpoint: RunCheckpoint,
        fold: &Fold,
    ) -> Result<Self, RestoreError> {
        checkpoint.restore(setup.into(), fold)
    }

    fn turn_id(&self) -> TurnId {
        TurnId { loop_id: self.setup.loop_id.clone(), turn_index: self.turn.index }
    }

    /// Says a whole message and puts it on the list of this run's messages.
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
        Arc::make_mut(&mut self.new_messages).push(entry.shared().clone());
    }

    /// An entry for a message that enters now: stamped with time and turn.
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

    /// Ends the run. The turn must be closed.
    fn end(&mut self, ended: Ended, out: &mut Vec<AgentEvent>) {
        out.push(AgentEvent::AgentEnd(Box::new(AgentEnd {
            loop_id: self.setup.loop_id.clone(),
            messages: self.new_messages.to_vec(),
            usage: self.usage,
            tool_usage: self.tool_usage,
            spent: self.spent().map(Box::new),
            ended: ended.clone(),
            timestamp: self.now,
        })));
        self.phase = Phase::Done(ended);
    }
}

/// Applies an input. Each handler checks its input completely before it changes the run.
fn apply(run: &mut Run, now: Timestamp, input: Input, out: &mut Vec<AgentEvent>) -> Result<(), Misplaced> {
    let name = input.name();
    let refuse = |reason: String| Misplaced { input: name, reason };
    if let Phase::Done(_) = run.phase {
        return Err(refuse("the run has ended".into()));
    }
    match input {
        Input::Queue { queued } => {
            History::may_enter_alone(&queued.entry).map_err(|e| refuse(e.to_string()))?;
            run.now = now;
            run.queues.push(queued);
            tool_calls::skip_if_steered(run, out);
            Ok(())
        }
        Input::ClearQueue { kind } => {
            run.now = now;
            run.queues.clear(kind);
            Ok(())
        }
        Input::SetQueueMode { kind, mode } => {
            run.now = now;
            run.queues.set_mode(kind, mode);
            Ok(())
        }
        Input::Abort { partial, interrupted } => {
            run.now = now;
            abort::abort(run, partial, interrupted, out);
            Ok(())
        }
        Input::GateDecided { verdict } => gate::decided(run, now, verdict, out).map_err(refuse),
        Input::Filtered { verdict } => gate::filtered(run, now, verdict, out).map_err(refuse),
        Input::BudgetDecided { verdict } => budget::decided(run, now, verdict, out).map_err(refuse),
        Input::ReplyStarted => model_call::started(run, now, out).map_err(refuse),
        Input::CacheBroke { found } => model_call::cache_broke(run, now, found, out).map_err(refuse),
        Input::ModelReplied { reply } => model_call::replied(run, now, reply, out).map_err(refuse),
        Input::ModelFailed { failure, partial } => {
            model_call::failed(run, now, &failure, partial, out).map_err(refuse)
        }
        Input::Slept => model_call::slept(run, now).map_err(refuse),
        Input::ToolBegan { id, verdict } => tool_calls::began(run, now, &id, verdict, out).map_err(refuse),
        Input::ToolEnded { id, outcome } => tool_calls::ended(run, now, &id, *outcome, out).map_err(refuse),
        Input::ToolReviewed { id, change } => {
            tool_calls::reviewed(run, now, &id, *change, out).map_err(refuse)
        }
        Input::Compacted { splices, usage, fallback } => {
            model_call::compacted(run, now, splices, usage, fallback, out).map_err(refuse)
        }
        Input::CompactionFailed { message } => {
            model_call::compaction_failed(run, now, message, out).map_err(refuse)
        }
        Input::Answer { question_id, answer } => match &run.phase {
            Phase::GateAsked { .. } => gate::answered(run, now, &question_id, answer, out).map_err(refuse),
            Phase::BudgetAsked(_) => budget::answered(run, now, &question_id, answer, out).map_err(refuse),
            Phase::Tools(_) => tool_calls::answered(run, now, &question_id, answer, out).map_err(refuse),
            _ => Err(refuse("nothing is asked".into())),
        },
    }
}
