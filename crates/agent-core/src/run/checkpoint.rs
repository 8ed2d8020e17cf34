//! The state of a run without its messages, which a journal can write after each input.
//!
//! Messages and results are already in the log, and the checkpoint refers to them. It costs O(1) per step, plus the
//! calls of an open reply.

mod difference;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::BudgetState;
use super::child::PendingChild;
use super::input::ToolChange;
use super::open_calls::{CallOutcome, OpenCalls, Slot, Stage};
use super::queues::Queues;
use super::{Phase, Run, RunSetup, Turn};
use crate::context::ContextTracker;
use crate::event::ToolSnapshot;
use crate::fold::Fold;
use crate::history::Entry;
use crate::identity::Timestamp;
use crate::limits::ExecutionTracker;
use crate::message::Usage;
use crate::route::LostRoutes;

pub use difference::KeptItems;

/// The state of a run without its setup and its messages. Created by [`Run::checkpoint`], restored by
/// [`Run::restore`].
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCheckpoint {
    now: Timestamp,
    /// The number of messages in the history, to detect a log that does not belong to the checkpoint.
    messages: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prompts: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Queues::is_plain")]
    queues: Queues,
    tracker: ExecutionTracker,
    #[serde(default, skip_serializing_if = "ContextTracker::is_empty")]
    context: ContextTracker,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    usage: Usage,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    tool_usage: Usage,
    #[serde(default, skip_serializing_if = "LostRoutes::is_empty")]
    lost_routes: LostRoutes,
    #[serde(default, skip_serializing_if = "BudgetState::is_empty")]
    budget: BudgetState,
    turn: Turn,
    phase: Phase<CallsCheckpoint>,
    #[serde(default, skip_serializing_if = "super::child::is_zero")]
    answers: u64,
}

/// Shows figures, without the messages.
impl fmt::Debug for RunCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunCheckpoint")
            .field("now", &self.now)
            .field("turn", &self.turn.index)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CallsCheckpoint {
    group: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    aborting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interrupted: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    slots: Vec<SlotCheckpoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SlotCheckpoint {
    stage: Stage,
    started: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
    #[serde(
        rename = "kept",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::explicit_null::field"
    )]
    pending_arguments: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approved: Option<Box<ToolSnapshot>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<Box<PendingChild>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<OutcomeCheckpoint>,
}

/// The part of a call's result that the log does not contain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OutcomeCheckpoint {
    at: Timestamp,
    tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<ToolChange>,
}

/// The error of a checkpoint that does not belong to its log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the checkpoint does not belong to the log before it: {reason}; the run can be closed like a crash, not resumed"
)]
#[non_exhaustive]
pub struct RestoreError {
    /// The difference between the checkpoint and the log.
    pub reason: String,
}

impl RunCheckpoint {
    pub(super) fn of(run: &Run) -> Self {
        let Ok(phase) = run.phase.with_calls(|open| Ok::<_, Infallible>(CallsCheckpoint::from(&**open)));
        Self {
            now: run.now,
            messages: run.history.len(),
            prompts: run.prompts.clone(),
            queues: run.queues.clone(),
            tracker: run.tracker.clone(),
            context: run.context.clone(),
            usage: run.usage,
            tool_usage: run.tool_usage,
            lost_routes: run.lost_routes.clone(),
            budget: run.budget.clone(),
            turn: run.turn.clone(),
            phase,
            answers: run.answers,
        }
    }

    pub(super) fn restore(self, setup: Arc<RunSetup>, fold: &Fold) -> Result<Run, RestoreError> {
        let mismatch = |reason: String| RestoreError { reason };
        if fold.history().len() != self.messages {
            let (has, wants) = (fold.history().len(), self.messages);
            return Err(mismatch(format!("the log gives {has} messages, the checkpoint has {wants}")));
        }
        let phase = self.phase.with_calls(|open| open.restore(fold).map(Box::new)).map_err(mismatch)?;
        Ok(Run {
            setup,
            now: self.now,
            history: fold.history().clone(),
            new_messages: fold.new_messages().to_vec().into(),
            prompts: self.prompts,
            queues: self.queues,
            tracker: self.tracker,
            context: self.context,
            usage: self.usage,
            tool_usage: self.tool_usage,
            lost_routes: self.lost_routes,
            budget: self.budget,
            turn: self.turn,
            phase,
            emitted: fold.event_count(),
            answers: self.answers,
        })
    }
}

impl<Calls> Phase<Calls> {
    /// Returns a copy of the phase in which `calls` has converted the open calls.
    fn with_calls<C, E>(&self, calls: impl FnOnce(&Calls) -> Result<C, E>) -> Result<Phase<C>, E> {
        Ok(match self {
            Self::Gate(at) => Phase::Gate(*at),
            Self::GateAsked { gate, question } => {
                Phase::GateAsked { gate: *gate, question: question.clone() }
            }
            Self::Compacting(task) => Phase::Compacting(*task),
            Self::Reserving { retry, forced } => Phase::Reserving { retry: retry.clone(), forced: *forced },
            Self::BudgetAsked(asked) => Phase::BudgetAsked(asked.clone()),
            Self::Calling { started, retry } => Phase::Calling { started: *started, retry: retry.clone() },
            Self::Backoff(retry) => Phase::Backoff(retry.clone()),
            Self::Tools(open) => Phase::Tools(calls(open)?),
            Self::BetweenTurns { results_wanted } => Phase::BetweenTurns { results_wanted: *results_wanted },
            Self::Done(ended) => Phase::Done(ended.clone()),
        })
    }
}

impl From<&OpenCalls> for CallsCheckpoint {
    fn from(open: &OpenCalls) -> Self {
        Self {
            group: open.group,
            aborting: open.aborting,
            interrupted: open.interrupted.clone(),
            timed_out: open.timed_out,
            slots: open.slots.iter().map(SlotCheckpoint::from).collect(),
        }
    }
}

impl CallsCheckpoint {
    fn restore(&self, fold: &Fold) -> Result<OpenCalls, String> {
        let open = fold.open().ok_or("the log has no reply with open calls")?;
        let reply = open.reply.message().as_assistant().ok_or("the open reply is none")?;
        let calls: Vec<_> = reply.tool_calls().cloned().collect();
        if calls.len() != self.slots.len() {
            return Err(format!("the reply has {} calls, the checkpoint {}", calls.len(), self.slots.len()));
        }
        let mut slots = Vec::with_capacity(calls.len());
        for (call, slot) in calls.into_iter().zip(self.slots.iter().cloned()) {
            let SlotCheckpoint { stage, started, forced, pending_arguments, approved, child, closed } = slot;
            let closed = match closed {
                None => None,
                Some(OutcomeCheckpoint { at, tokens, change }) => {
                    let lacks = || format!("the log lacks the end of call {}", call.id);
                    let end = open.ends.get(&call.id).ok_or_else(lacks)?;
                    let (result, duration_ms) = (end.result.clone(), end.duration_ms);
                    Some(CallOutcome { result, duration_ms, tokens, at, change })
                }
            };
            slots.push(Slot { call, stage, started, forced, pending_arguments, approved, child, closed });
        }
        Ok(OpenCalls {
            reply: open.reply.clone(),
            slots,
            group: self.group,
            aborting: self.aborting,
            interrupted: self.interrupted.clone(),
            timed_out: self.timed_out,
        })
    }
}

impl From<&Slot> for SlotCheckpoint {
    fn from(slot: &Slot) -> Self {
        Self {
            stage: slot.stage.clone(),
            started: slot.started,
            forced: slot.forced,
            pending_arguments: slot.pending_arguments.clone(),
            approved: slot.approved.clone(),
            child: slot.child.clone(),
            closed: slot.closed.as_ref().map(|c| OutcomeCheckpoint {
                at: c.at,
                tokens: c.tokens,
                change: c.change.clone(),
            }),
        }
    }
}
