//! A run without its messages: what a journal writes after each input.
//!
//! Messages and results are in the log already; the light form refers to them by where the log stands and costs O(1) a step,
//! calls of an open reply aside.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::budget::{Asked, BudgetState};
use super::input::ToolChange;
use super::open::{Closed, Open, Slot, Stage};
use super::queues::Queues;
use super::{CompactionTask, GateAt, Phase, Retry, Run, RunSetup, Turn};
use crate::context::ContextTracker;
use crate::event::{Ended, Question};
use crate::fold::Fold;
use crate::history::Entry;
use crate::identity::Timestamp;
use crate::limits::ExecutionTracker;
use crate::message::{Message, Usage};
use crate::route::LostRoutes;

/// A run without its setup and its messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCheckpoint {
    now: Timestamp,
    /// Messages in the history, to notice a log that does not belong to it.
    messages: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prompts: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Queues::is_plain")]
    queues: Queues,
    tracker: ExecutionTracker,
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
    phase: CheckpointPhase,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum CheckpointPhase {
    Gate(GateAt),
    GateAsked {
        gate: GateAt,
        question: Question,
    },
    Compacting(CompactionTask),
    Reserving {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
        forced: bool,
    },
    BudgetAsked(Box<Asked>),
    Calling {
        started: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<Retry>,
    },
    Backoff(Retry),
    Tools(LightOpen),
    Done(Ended),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LightOpen {
    group: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    aborting: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interrupted: Option<String>,
    slots: Vec<LightSlot>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LightSlot {
    stage: Stage,
    started: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    forced: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::present::field")]
    kept: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<LightClosed>,
}

/// What the log does not say of a call's end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct LightClosed {
    at: Timestamp,
    tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    change: Option<ToolChange>,
}

/// A light run and a log that do not belong together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the checkpoint does not belong to the log before it: {reason}; the run can be closed like a crash, not resumed"
)]
#[non_exhaustive]
pub struct RestoreError {
    /// What does not fit.
    pub reason: String,
}

impl Run {
    /// The run without its setup and its messages. With the setup and the fold of all events that it has said, it gives
    /// the run back.
    #[must_use]
    pub fn light(&self) -> RunCheckpoint {
        let phase = match &self.phase {
            Phase::Gate(at) => CheckpointPhase::Gate(*at),
            Phase::GateAsked { gate, question } => {
                CheckpointPhase::GateAsked { gate: *gate, question: question.clone() }
            }
            Phase::Compacting(task) => CheckpointPhase::Compacting(*task),
            Phase::Reserving { retry, forced } => {
                CheckpointPhase::Reserving { retry: retry.clone(), forced: *forced }
            }
            Phase::BudgetAsked(asked) => CheckpointPhase::BudgetAsked(asked.clone()),
            Phase::Calling { started, retry } => {
                CheckpointPhase::Calling { started: *started, retry: retry.clone() }
            }
            Phase::Backoff(retry) => CheckpointPhase::Backoff(retry.clone()),
            Phase::Tools(open) => CheckpointPhase::Tools(LightOpen {
                group: open.group,
                aborting: open.aborting,
                interrupted: open.interrupted.clone(),
                slots: open.slots.iter().map(LightSlot::from).collect(),
            }),
            Phase::Done(ended) => CheckpointPhase::Done(ended.clone()),
        };
        RunCheckpoint {
            now: self.now,
            messages: self.history.len(),
            prompts: self.prompts.clone(),
            queues: self.queues.clone(),
            tracker: self.tracker.clone(),
            context: self.context.clone(),
            usage: self.usage,
            tool_usage: self.tool_usage,
            lost_routes: self.lost_routes.clone(),
            budget: self.budget.clone(),
            turn: self.turn.clone(),
            phase,
        }
    }

    /// A run from its light form, its setup, and the fold of the conversation before it and of all events that it has said.
    ///
    /// # Errors
    /// When they do not belong together.
    pub fn restore(
        setup: impl Into<Arc<RunSetup>>,
        light: RunCheckpoint,
        fold: &Fold,
    ) -> Result<Self, RestoreError> {
        let mismatch = |reason: String| RestoreError { reason };
        if fold.history().len() != light.messages {
            let (has, wants) = (fold.history().len(), light.messages);
            return Err(mismatch(format!("the log gives {has} messages, the checkpoint has {wants}")));
        }
        let phase = match light.phase {
            CheckpointPhase::Gate(at) => Phase::Gate(at),
            CheckpointPhase::GateAsked { gate, question } => Phase::GateAsked { gate, question },
            CheckpointPhase::Compacting(task) => Phase::Compacting(task),
            CheckpointPhase::Reserving { retry, forced } => Phase::Reserving { retry, forced },
            CheckpointPhase::BudgetAsked(asked) => Phase::BudgetAsked(asked),
            CheckpointPhase::Calling { started, retry } => Phase::Calling { started, retry },
            CheckpointPhase::Backoff(retry) => Phase::Backoff(retry),
            CheckpointPhase::Tools(open) => Phase::Tools(Box::new(open.restore(fold).map_err(mismatch)?)),
            CheckpointPhase::Done(ended) => Phase::Done(ended),
        };
        Ok(Self {
            setup: setup.into(),
            now: light.now,
            history: fold.history().clone(),
            new_messages: Arc::new(fold.new_messages().to_vec()),
            prompts: light.prompts,
            queues: light.queues,
            tracker: light.tracker,
            context: light.context,
            usage: light.usage,
            tool_usage: light.tool_usage,
            lost_routes: light.lost_routes,
            budget: light.budget,
            turn: light.turn,
            phase,
        })
    }
}

impl LightOpen {
    fn restore(self, fold: &Fold) -> Result<Open, String> {
        let open = fold.open().ok_or("the log has no reply with open calls")?;
        let reply =
            open.reply.message().as_llm().and_then(Message::as_assistant).ok_or("the open reply is none")?;
        let calls: Vec<_> = reply.tool_calls().cloned().collect();
        if calls.len() != self.slots.len() {
            return Err(format!("the reply has {} calls, the checkpoint {}", calls.len(), self.slots.len()));
        }
        let mut slots = Vec::with_capacity(calls.len());
        for (call, light) in calls.into_iter().zip(self.slots) {
            let closed = match &light.closed {
                None => None,
                Some(closed) => {
                    let end = open
                        .ends
                        .get(&call.id)
                        .ok_or_else(|| format!("the log lacks the end of call {}", call.id))?;
                    Some(Closed {
                        result: end.result.clone(),
                        duration_ms: end.duration_ms,
                        tokens: closed.tokens,
                        at: closed.at,
                        change: closed.change.clone(),
                    })
                }
            };
            let LightSlot { stage, started, forced, kept, .. } = light;
            slots.push(Slot { call, stage, started, forced, kept, closed });
        }
        Ok(Open {
            reply: open.reply.clone(),
            slots,
            group: self.group,
            aborting: self.aborting,
            interrupted: self.interrupted,
        })
    }
}

impl From<&Slot> for LightSlot {
    fn from(slot: &Slot) -> Self {
        Self {
            stage: slot.stage.clone(),
            started: slot.started,
            forced: slot.forced,
            kept: slot.kept.clone(),
            closed: slot.closed.as_ref().map(|c| LightClosed {
                at: c.at,
                tokens: c.tokens,
                change: c.change.clone(),
            }),
        }
    }
}
