//! Evaluation strategies, which select one of several branches.
//!
//! | strategy | selects |
//! |---|---|
//! | [`OnlyBranchEvaluation`] | the only branch, however it ended; several branches are an error |
//! | [`PickFirstEvaluation`] | the first candidate |
//! | [`TokenEfficientEvaluation`] | the candidate with the fewest tokens; among equals the first |
//! | [`MostTokensEvaluation`] | the candidate with the most tokens; among equals the first |
//! | [`LlmJudgeEvaluation`] | the candidate that a model selects |
//!
//! **Candidates** are the branches that completed. If none did, they are those that a limit or a hook stopped after
//! they had produced a text. A branch that failed, was denied or waits for an answer is never preferred to one that
//! answered; otherwise its low token count would win. If there is no candidate, the evaluation fails.
//!
//! A custom strategy implements [`EvaluationStrategy`]:
//!
//! ```
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{
//!     AgentContext, AgentLoopConfig, CancellationToken, Evaluated, Evaluation, EvaluationError,
//!     EvaluationStrategy, EventSender, ModelConfig, agent_loop_parallel,
//! };
//!
//! struct Shortest;
//!
//! #[async_trait::async_trait]
//! impl EvaluationStrategy for Shortest {
//!     async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
//!         let length = |text: Option<String>| text.map_or(usize::MAX, |t| t.len());
//!         let candidates = evaluation.candidates()?;
//!         let shortest = candidates.iter().min_by_key(|o| length(o.final_text()));
//!         shortest.map(|o| Evaluated::select(o.index)).ok_or(EvaluationError::NoCandidate)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), agent_core::ParallelError> {
//! let config = |answer| {
//!     let model = std::sync::Arc::new(ScriptedProvider::texts([answer]));
//!     AgentLoopConfig::system(model, ModelConfig::default())
//! };
//! let (prompts, context) = (vec!["Why?".into()], AgentContext::default());
//! let branches = [config("Because it is so."), config("Because.")];
//! let (tx, cancel) = (EventSender::none(), CancellationToken::new());
//! let result = agent_loop_parallel(prompts, context, branches, Shortest, tx, cancel).await?;
//! assert_eq!(result.selected_index(), 1);
//! # Ok(())
//! # }
//! ```

mod choices;
mod group;
mod judge;
mod outcome;

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use choices::{
    MostTokensEvaluation, OnlyBranchEvaluation, PickFirstEvaluation, TokenEfficientEvaluation,
};
pub use group::GroupSetup;
pub use judge::{DEFAULT_JUDGE_PROMPT, Judge, Judging, LlmJudgeEvaluation};
pub use outcome::{BranchEnd, ParallelLoopOutcome};

use crate::budget::Budget;
use crate::drive::{EventSender, Telemetry};
use crate::environment::Environment;
use crate::event::AgentEvent;
use crate::identity::{LoopId, ToolCallId, ToolName};
use crate::journal::Journal;
use crate::message::{AgentMessage, Usage};
use crate::provider::error::BoxError;

/// Selects one of several branches. Implement it to add a strategy.
#[async_trait]
pub trait EvaluationStrategy: Send + Sync {
    /// Selects a branch. After a cancellation, a future that does not complete within half a second is dropped. A
    /// panic is reported as an error.
    ///
    /// # Errors
    /// Returns an error if no branch can be selected.
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError>;
}

#[async_trait]
impl<S: EvaluationStrategy + ?Sized> EvaluationStrategy for &S {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        (**self).evaluate(evaluation).await
    }
}

#[async_trait]
impl<S: EvaluationStrategy + ?Sized> EvaluationStrategy for Arc<S> {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        (**self).evaluate(evaluation).await
    }
}

#[async_trait]
impl<S: EvaluationStrategy + ?Sized> EvaluationStrategy for Box<S> {
    async fn evaluate(&self, evaluation: Evaluation<'_>) -> Result<Evaluated, EvaluationError> {
        (**self).evaluate(evaluation).await
    }
}

/// The branches to select from, with their prompts and their group.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Evaluation<'a> {
    /// The prompts of the first branch; empty if the branches continued.
    pub prompts: &'a [AgentMessage],
    /// The outcome of each branch, in order.
    pub outcomes: &'a [ParallelLoopOutcome],
    /// The group of the branches, from which the id of a judge derives.
    pub group: &'a GroupSetup,
    /// The environment of the group, which is that of the first branch.
    pub environment: &'a Arc<dyn Environment>,
    /// The journal of the first branch that has one. A judge without its own journal is recorded in it.
    pub journal: Option<&'a Arc<dyn Journal>>,
    /// The budget of the first branch that has one. A judge that calls a model charges it as well.
    pub budget: Option<&'a Budget>,
    /// The telemetry of the first branch that has one. A judge without its own uses it.
    pub telemetry: Option<&'a Arc<dyn Telemetry>>,
    /// Whether the group was cut off and is resumed, so that a judge can be recorded already.
    pub is_resumed: bool,
    /// The receiver of the events.
    pub tx: &'a EventSender,
    /// Cancelled together with the branches.
    pub cancel: &'a CancellationToken,
}

impl<'a> Evaluation<'a> {
    /// Returns the branches that may be selected; see the [module](self).
    ///
    /// # Errors
    /// Returns [`EvaluationError::NoCandidate`] if no branch may be selected.
    pub fn candidates(&self) -> Result<Vec<&'a ParallelLoopOutcome>, EvaluationError> {
        candidates(self.outcomes)
    }

    /// Emits a live `ProgressMessage` of the group about the progress of the evaluation.
    pub fn emit_progress(&self, topic: &str, by: &str, text: impl Into<String>) {
        self.tx.send(AgentEvent::ProgressMessage {
            loop_id: self.group.group_id.clone(),
            tool_call_id: ToolCallId::from(topic),
            tool_name: ToolName::from(by),
            text: text.into(),
        });
    }
}

pub(crate) fn candidates(
    outcomes: &[ParallelLoopOutcome],
) -> Result<Vec<&ParallelLoopOutcome>, EvaluationError> {
    let mut found: Vec<_> = outcomes.iter().filter(|o| o.is_completed()).collect();
    if found.is_empty() {
        found = outcomes.iter().filter(|o| o.is_partial()).collect();
    }
    if found.is_empty() { Err(EvaluationError::NoCandidate) } else { Ok(found) }
}

/// The decision of a strategy and its cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Evaluated {
    /// The selected branch, and whether it is a fallback.
    pub decision: EvaluationDecision,
    /// The tokens that the evaluation used.
    pub usage: Usage,
    /// The loop of the judge, if a model judged.
    pub judge_loop_id: Option<LoopId>,
}

impl Evaluated {
    /// Creates the selection of a branch without cost.
    #[must_use]
    pub fn select(index: usize) -> Self {
        Self { decision: EvaluationDecision::Selected(index), usage: Usage::default(), judge_loop_id: None }
    }

    /// Sets the tokens that the evaluation used.
    #[must_use]
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}

/// The selected branch, and whether it is a fallback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum EvaluationDecision {
    /// The strategy selected this branch.
    Selected(usize),
    /// The strategy could not decide, and this branch is the fallback.
    FellBack {
        /// The index of the fallback.
        index: usize,
        /// The reason for which the strategy could not decide.
        reason: String,
    },
}

impl EvaluationDecision {
    /// Returns the index of the branch.
    #[must_use]
    pub fn index(&self) -> usize {
        match self {
            Self::Selected(index) | Self::FellBack { index, .. } => *index,
        }
    }

    /// Returns the reason of a fallback; `None` if the strategy decided.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Selected(_) => None,
            Self::FellBack { reason, .. } => Some(reason),
        }
    }
}

/// The error of a strategy that selected no branch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// No branch produced an answer.
    #[error("no branch produced an answer; see how each outcome ended")]
    NoCandidate,
    /// [`OnlyBranchEvaluation`] requires exactly one branch and got several.
    #[error("OnlyBranchEvaluation takes one branch and got {branches}; use another strategy to select")]
    NotOne {
        /// The number of branches.
        branches: usize,
    },
    /// The strategy selected a branch that does not exist.
    #[error("the strategy selected branch {index} of {branches}, counted from 0")]
    OutOfRange {
        /// The index that it selected.
        index: usize,
        /// The number of branches.
        branches: usize,
    },
    /// The evaluation was cancelled.
    #[error("the evaluation was aborted")]
    Aborted,
    /// The strategy panicked, with this message.
    #[error("the evaluation panicked: {0}")]
    Panicked(String),
    /// The strategy failed with this error.
    #[error("the evaluation failed: {0}")]
    Failed(#[source] BoxError),
}
