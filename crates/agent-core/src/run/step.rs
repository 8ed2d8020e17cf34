//! What a run wants to have done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{GateAt, Phase, Run};
use crate::event::{CompactionReason, Ended, Question};
use crate::history::{Entry, History};
use crate::identity::StepKey;
use crate::message::ToolCall;

/// What is to be done. Its key is the same in every process that gets here (architecture: stable step keys).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// Ask the hooks; answer with [`Input::GateDecided`](super::Input) or, for the prompts, `Filtered`.
    Gate {
        /// Its name.
        key: StepKey,
        /// Which.
        gate: Gate,
    },
    /// Call the model; answer with `ReplyStarted` and then `ModelReplied` or `ModelFailed`.
    CallModel {
        /// Its name.
        key: StepKey,
        /// The turn.
        turn: u32,
        /// Which call of the turn, from 0.
        attempt: u32,
        /// Who is called: 0 is the run's own model, then its routes in order.
        route: u32,
        /// What the model is shown, before the caller's own transformations.
        history: History,
        /// The most tokens of the answer, where the budget allows less than is configured.
        max_output: Option<u32>,
    },
    /// Ask the budget whether the model may be called; answer with `BudgetDecided`.
    Reserve {
        /// Its name.
        key: StepKey,
        /// Who is to be called, as in `CallModel`.
        route: u32,
        /// What the model is to be shown.
        history: History,
        /// What the prompt is estimated at: the messages, and with them what the provider counted of instructions and tools
        /// where `reported` is set.
        tokens: u64,
        /// Whether instructions and tools are in `tokens`.
        reported: bool,
        /// Whether a person allowed the call, whatever the limits say.
        forced: bool,
    },
    /// Wait; answer with `Slept`.
    Sleep {
        /// Its name.
        key: StepKey,
        /// How long, in milliseconds.
        delay_ms: u64,
    },
    /// Run these calls side by side; answer for each with `ToolBegan` and, if it runs, `ToolEnded`.
    RunTools {
        /// Its name.
        key: StepKey,
        /// The calls of one group that have no outcome yet.
        calls: Vec<PendingCall>,
    },
    /// Shorten the history; answer with `Compacted` or `CompactionFailed`.
    Compact {
        /// Its name.
        key: StepKey,
        /// What to reach.
        task: CompactionTask,
        /// The history.
        history: History,
    },
    /// Nothing goes on without an answer: `Answer`, or `Abort`.
    AwaitAnswer {
        /// Its name.
        key: StepKey,
        /// What is asked.
        questions: Vec<Question>,
    },
    /// Nothing is left to do.
    Done(Ended),
}

/// A place where hooks are asked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Gate {
    /// Before the loop.
    Loop,
    /// For the prompts.
    Input {
        /// The prompts.
        prompts: Vec<Entry>,
    },
    /// Before a turn.
    Turn {
        /// Its index.
        turn: u32,
    },
}

/// What a compaction has to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactionTask {
    /// Why.
    pub reason: CompactionReason,
    /// The most tokens the messages may have, as counted.
    pub budget: u64,
}

/// A call that has no outcome yet.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PendingCall {
    /// Its name, the same after a crash and a resume: the idempotency key (X6).
    pub key: StepKey,
    /// The call.
    pub call: ToolCall,
    /// How far it is.
    pub stage: CallStage,
    /// Whether a person allowed it although a limit of the budget is reached.
    pub forced: bool,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum CallStage {
    /// Nothing is decided.
    New,
    /// A person allowed it, possibly with other arguments: hooks and policies are not asked again.
    Approved(Option<Value>),
    /// It began, with these arguments where they differ from what the model sent. Seen in a fresh shell, this is a call
    /// that was cut off.
    Began(Option<Value>),
    /// It ended, and the hook that may change its result has not been asked.
    Ended,
}

impl Step {
    /// The step's name; `None` when nothing is left to do.
    #[must_use]
    pub fn key(&self) -> Option<&StepKey> {
        match self {
            Self::Gate { key, .. }
            | Self::CallModel { key, .. }
            | Self::Reserve { key, .. }
            | Self::Sleep { key, .. }
            | Self::RunTools { key, .. }
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
        Phase::GateAsked { question, .. } => Step::AwaitAnswer {
            key: StepKey::from(format!("answer-{turn}")),
            questions: vec![question.clone()],
        },
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
        Phase::BudgetAsked(asked) => Step::AwaitAnswer {
            key: StepKey::from(format!("answer-{turn}")),
            questions: vec![asked.question.clone()],
        },
        Phase::Backoff(retry) => Step::Sleep {
            key: StepKey::from(format!("sleep-{turn}.{}", run.turn.attempt)),
            delay_ms: retry.delay_ms,
        },
        Phase::Tools(open) => open.next(turn),
        Phase::Done(ended) => Step::Done(ended.clone()),
    }
}
