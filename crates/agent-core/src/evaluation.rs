//! Selecting one of several branches (REQ-199, REQ-200).
//!
//! | strategy | selects |
//! |---|---|
//! | [`TransparentEvaluation`] | the one branch that there is, however it ended; more than one is an error |
//! | [`PickFirstEvaluation`] | the first candidate |
//! | [`TokenEfficientEvaluation`] | the candidate with the fewest tokens; of equals the first |
//! | [`ElaborateEvaluation`] | the candidate with the most tokens; of equals the first |
//! | [`LlmJudgeEvaluation`] | the candidate that a model names |
//!
//! **Candidates** are the branches that completed. Where none did, they are those that a limit or a hook stopped after they had
//! said something. A branch that failed, was refused or waits for an answer is never selected over one that answered:
//! it used few tokens, and would win for that. Where there is no candidate, there is an error.
//!
//! A strategy of one's own implements [`EvaluationStrategy`]:
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
use tokio_util::sync::CancellationToken;

pub use choices::{
    ElaborateEvaluation, PickFirstEvaluation, TokenEfficientEvaluation, TransparentEvaluation,
};
pub use group::ParallelGroup;
pub use judge::{DEFAULT_JUDGE_PROMPT, LlmJudgeEvaluation};
pub use outcome::{BranchEnd, ParallelLoopOutcome};

pub(crate) use group::Announced;

use crate::budget::Budget;
use crate::drive::EventSender;
use crate::event::AgentEvent;
use crate::identity::{LoopId, ToolCallId, ToolName};
use crate::message::{AgentMessage, Usage};
use crate::provider::error::BoxError;

/// Selects one of several branches.
#[async_trait]
pub trait EvaluationStrategy: Send + Sync {
    /// Selects. A future that does not end within half a second of a cancellation is dropped; a panic is an error.
    ///
    /// # Errors
    /// When none can be selected.
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

/// What a strategy has to select from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Evaluation<'a> {
    /// The prompts of the first branch; none where the branches continued.
    pub prompts: &'a [AgentMessage],
    /// What became of each branch, in their order.
    pub outcomes: &'a [ParallelLoopOutcome],
    /// The group.
    pub group: &'a ParallelGroup,
    /// What the branches spend from: the account of the first one that has any. A judge that asks a model spends there, too.
    pub budget: Option<&'a Budget>,
    /// Where events go.
    pub tx: &'a EventSender,
    /// Cancelled with the branches.
    pub cancel: &'a CancellationToken,
}

impl<'a> Evaluation<'a> {
    /// The branches that may be selected; see the [module](self).
    ///
    /// # Errors
    /// When there is none.
    pub fn candidates(&self) -> Result<Vec<&'a ParallelLoopOutcome>, EvaluationError> {
        candidates(self.outcomes)
    }

    /// Shows people how the evaluation goes on: a live `ProgressMessage` of the group.
    pub fn say(&self, topic: &str, by: &str, text: impl Into<String>) {
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

/// What a strategy gave.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evaluated {
    /// Which branch.
    pub decision: EvaluationDecision,
    /// Tokens that the evaluation used.
    pub usage: Usage,
    /// The loop of the judge, where one was asked.
    pub judge_loop_id: Option<LoopId>,
}

impl Evaluated {
    /// This branch, without any cost.
    #[must_use]
    pub fn select(index: usize) -> Self {
        Self { decision: EvaluationDecision::Selected(index), usage: Usage::default(), judge_loop_id: None }
    }

    /// The same, which used these tokens.
    #[must_use]
    pub fn using(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}

/// Which branch is selected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvaluationDecision {
    /// This one.
    Selected(usize),
    /// The strategy could not decide, and this one stands in (D29).
    FellBack {
        /// Which.
        index: usize,
        /// Why it could not decide.
        reason: String,
    },
}

impl EvaluationDecision {
    /// The branch.
    #[must_use]
    pub fn index(&self) -> usize {
        match self {
            Self::Selected(index) | Self::FellBack { index, .. } => *index,
        }
    }

    /// Why the strategy could not decide, where it could not.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Selected(_) => None,
            Self::FellBack { reason, .. } => Some(reason),
        }
    }
}

/// Why a strategy selected none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// No branch answered.
    #[error("no branch came to an answer; see how each outcome ended")]
    NoCandidate,
    /// [`TransparentEvaluation`] passes one branch through and got more.
    #[error("TransparentEvaluation takes one branch and got {branches}; use another strategy to select")]
    NotOne {
        /// How many there were.
        branches: usize,
    },
    /// The strategy named a branch that is not there.
    #[error("the strategy selected branch {index} of {branches}, counted from 0")]
    OutOfRange {
        /// What it named.
        index: usize,
        /// How many there are.
        branches: usize,
    },
    /// It was cancelled.
    #[error("the evaluation was aborted")]
    Aborted,
    /// The strategy panicked.
    #[error("the evaluation panicked: {0}")]
    Panicked(String),
    /// The strategy failed.
    #[error("the evaluation failed: {0}")]
    Failed(#[source] BoxError),
}
