//! The steps of a run: what the driver has to perform.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GateAt, PendingChild, Phase, Run};
use crate::event::{CompactionReason, Ended, Question, ToolSnapshot};
use crate::history::{Entry, History};
use crate::identity::StepKey;
use crate::message::ToolCall;

/// The next step that the driver performs. Its key is the same in every process that reaches the step.
///
/// A step serializes with the whole conversation that it needs, so that another process can perform it. A driver that
/// has the [`Run`] stores the run or its inputs instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Step {
    /// Call the hooks of a gate and apply [`Input::GateDecided`](super::Input), or `Filtered` for the prompts.
    Gate {
        /// The key of the step.
        key: StepKey,
        /// The gate to evaluate.
        gate: Gate,
    },
    /// Call the model; apply `ReplyStarted`, then `ModelReplied` or `ModelFailed`.
    CallModel {
        /// The key of the step.
        key: StepKey,
        /// The index of the turn.
        turn: u32,
        /// The index of the call in its turn, from 0.
        attempt: u32,
        /// The route to call: 0 is the run's own model, followed by the routes in order.
        route: u32,
        /// The conversation, before the caller's transformations.
        history: History,
        /// The maximum tokens of the answer, if the budget allows less than is configured.
        max_output: Option<u32>,
    },
    /// Reserve the model call in the budget; apply `BudgetDecided`.
    Reserve {
        /// The key of the step.
        key: StepKey,
        /// The route to call, as in `CallModel`.
        route: u32,
        /// The conversation that the model would receive.
        history: History,
        /// The estimated tokens of the messages. If `reported` is set, it includes the provider's count of
        /// instructions and tools.
        tokens: u64,
        /// Whether instructions and tools are included in `tokens`.
        reported: bool,
        /// Whether the user allowed the call regardless of the limits.
        forced: bool,
    },
    /// Wait before the next attempt; apply `Slept`.
    Sleep {
        /// The key of the step.
        key: StepKey,
        /// The delay in milliseconds.
        delay_ms: u64,
    },
    /// Execute these calls concurrently; apply `ToolBegan` for each and `ToolEnded` for each that ran.
    RunTools {
        /// The key of the step.
        key: StepKey,
        /// The calls of one group that have no outcome yet.
        calls: Vec<PendingCall>,
    },
    /// The turn has ended: deliver its events, apply each message that was queued as [`Input::Queue`](super::Input),
    /// then apply `QueuesRead`. The run then ends or opens the next turn.
    ReadQueues {
        /// The key of the step.
        key: StepKey,
    },
    /// Shorten the history; apply `Compacted` or `CompactionFailed`.
    Compact {
        /// The key of the step.
        key: StepKey,
        /// The goal of the compaction.
        task: CompactionTask,
        /// The history to shorten.
        history: History,
    },
    /// Leave the run until a question is answered: apply `Suspended`, and later `Answer` or `Abort`.
    AwaitAnswer {
        /// The key of the step.
        key: StepKey,
        /// The open questions of the run.
        questions: Vec<Question>,
    },
    /// The run has ended; nothing remains to perform.
    Done(Ended),
}

/// A point at which hooks are called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Gate {
    /// Before the loop starts.
    Loop,
    /// Before the prompts enter.
    Input {
        /// The prompts to check.
        prompts: Vec<Entry>,
    },
    /// Before a turn starts.
    Turn {
        /// The index of the turn.
        turn: u32,
    },
}

/// The goal of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactionTask {
    /// The reason of the compaction.
    pub reason: CompactionReason,
    /// The maximum token count of the messages.
    pub budget: u64,
}

/// A call that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PendingCall {
    /// The key of the call, the same after a crash and a resume. Tools receive it as an idempotency key.
    pub key: StepKey,
    /// The call as the model sent it.
    pub call: ToolCall,
    /// The stage of the call.
    pub stage: CallStage,
    /// Whether the user allowed the call although a budget limit is reached.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// The tool for which the user allowed the call. If the tool differs, the call needs another approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Box<ToolSnapshot>>,
    /// The child loop to which the call is delegated, once it has been suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<PendingChild>>,
}

impl PendingCall {
    /// Creates a call in this stage, without a child. `forced` is `false`.
    ///
    /// ```
    /// use agent_core::ToolCall;
    /// use agent_core::run::{CallStage, PendingCall};
    ///
    /// let call = ToolCall::new("call_1", "read_file", serde_json::json!({"path": "src/lib.rs"}));
    /// let pending = PendingCall::new("tool-0-call_1", call, CallStage::New);
    /// let written = serde_json::to_string(&pending)?;
    /// assert_eq!(serde_json::from_str::<PendingCall>(&written)?, pending);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn new(key: impl Into<StepKey>, call: ToolCall, stage: CallStage) -> Self {
        Self { key: key.into(), call, stage, forced: false, approved: None, child: None }
    }
}

/// The stage of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallStage {
    /// Nothing has been decided about the call.
    New,
    /// The user allowed the call, possibly with other arguments. Hooks and policies are not called again.
    Approved(#[serde(with = "super::explicit_null")] Option<Value>),
    /// The call started, with these arguments if they differ from those that the model sent. When a driver resumes a
    /// run, this call was interrupted.
    Began(#[serde(with = "super::explicit_null")] Option<Value>),
    /// The child loop of the call was suspended and has answers, which [`PendingCall::child`] contains.
    Answered(#[serde(with = "super::explicit_null")] Option<Value>),
    /// The call ended, and the hook that may change its result has not been called.
    Ended,
}

impl Step {
    /// Returns the key of the step; `None` if the run has ended.
    #[must_use]
    pub fn key(&self) -> Option<&StepKey> {
        match self {
            Self::Gate { key, .. }
            | Self::CallModel { key, .. }
            | Self::Reserve { key, .. }
            | Self::Sleep { key, .. }
            | Self::RunTools { key, .. }
            | Self::ReadQueues { key }
            | Self::Compact { key, .. }
            | Self::AwaitAnswer { key, .. } => Some(key),
            Self::Done(_) => None,
        }
    }
}

pub(super) fn next(run: &Run) -> Step {
    let turn = run.turn.index;
    match &run.phase {
        Phase::Gate(at) => {
            let (key, gate) = match at {
                GateAt::Loop => (StepKey::from("gate-loop"), Gate::Loop),
                GateAt::Input => (StepKey::from("gate-input"), Gate::Input { prompts: run.prompts.clone() }),
                GateAt::Turn => (StepKey::from(format!("gate-turn-{turn}")), Gate::Turn { turn }),
            };
            Step::Gate { key, gate }
        }
        Phase::GateAsked { .. } | Phase::BudgetAsked(_) => {
            Step::AwaitAnswer { key: StepKey::from(format!("answer-{turn}")), questions: run.questions() }
        }
        Phase::Compacting(task) => Step::Compact {
            key: StepKey::from(format!("compact-{turn}.{}", run.turn.attempt)),
            task: *task,
            history: run.history.clone(),
        },
        Phase::Calling { .. } => Step::CallModel {
            key: run.model_key(),
            turn,
            attempt: run.turn.attempt,
            route: run.turn.route,
            history: run.history.clone(),
            max_output: run.budget.granted.as_ref().and_then(|g| g.max_output),
        },
        Phase::Reserving { forced, .. } => Step::Reserve {
            key: StepKey::from(format!("reserve-{turn}.{}", run.turn.attempt)),
            route: run.turn.route,
            history: run.history.clone(),
            tokens: run.context_tokens(),
            reported: run.context.is_reported(&run.history),
            forced: *forced,
        },
        Phase::Backoff(retry) => Step::Sleep {
            key: StepKey::from(format!("sleep-{turn}.{}", run.turn.attempt)),
            delay_ms: retry.delay_ms,
        },
        Phase::Tools(open) => open.next(turn),
        Phase::BetweenTurns { .. } => Step::ReadQueues { key: StepKey::from(format!("queues-{turn}")) },
        Phase::Done(ended) => Step::Done(ended.clone()),
    }
}
