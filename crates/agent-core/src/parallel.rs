//! Branches: several loops over one conversation, side by side, and the choice of one of them (REQ-196..209).
//!
//! [`agent_loop_parallel`] runs one loop for each [`Branch`], each over a clone of the same context (O(1)), waits for all of
//! them, and lets an [`EvaluationStrategy`] select one. Everything that became of the others comes back, too.
//!
//! - A branch that fails, is refused or panics is an outcome, not the end of the others.
//! - One token cancels all branches and the judge. Cancelling one branch leaves the others alone.
//! - All events go into one stream and are told apart by their loop. Each branch has exactly one terminal event; the group
//!   has a `ParallelLoopStart` before and a `ParallelLoopEnd` after all of them, also when the future is dropped.
//! - The ids of branches are unique in the session however often branches run (D28).
//!
//! ```
//! use std::sync::Arc;
//!
//! use agent_core::testing::ScriptedProvider;
//! use agent_core::{
//!     AgentContext, AgentLoopConfig, CancellationToken, EventSender, LlmJudgeEvaluation, ModelConfig,
//!     agent_loop_parallel,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = |answer| {
//!     AgentLoopConfig::system(Arc::new(ScriptedProvider::texts([answer])), ModelConfig::default())
//! };
//! let result = agent_loop_parallel(
//!     vec!["2 + 2?".into()],
//!     AgentContext::new("Be brief."),
//!     [config("5"), config("4")],
//!     LlmJudgeEvaluation::new(config("Response 2 is right.")),
//!     EventSender::none(),
//!     CancellationToken::new(),
//! )
//! .await?;
//! assert_eq!(result.selected.index, 1);
//! assert_eq!(result.selected.final_text().as_deref(), Some("4"));
//! assert_eq!(result.outcomes().count(), 2);
//! # Ok(())
//! # }
//! ```

mod branch;
mod error;
mod plan;
mod result;

use tokio_util::sync::CancellationToken;

pub use branch::Branch;
pub use error::ParallelError;
pub use result::{ParallelLoopResult, ParallelUsage};

pub use crate::evaluation::{BranchEnd, ParallelGroup, ParallelLoopOutcome};
pub(crate) use plan::{Plan, Prepared};

use crate::drive::{AgentContext, EventSender};
use crate::evaluation::EvaluationStrategy;
use crate::message::AgentMessage;

/// Runs a loop for each branch over the same context and prompts, side by side, and selects one (REQ-203).
///
/// Without prompts each branch goes on from what the context holds, as
/// [`agent_loop_continue`](crate::agent_loop_continue) does (REQ-205). Ids that the context lacks are made. The branches name the
/// context's loop as their parent and are continuations of the kind `Branch`.
///
/// A branch that waits for an answer counts as one without an answer; its run is in its outcome's context.
///
/// # Errors
/// When there is no branch, or one could not begin: nothing was sent then. When none could be selected, the run was
/// cancelled, or the group could not be written down: the error holds the outcomes.
pub async fn agent_loop_parallel<B: Into<Branch>>(
    prompts: Vec<AgentMessage>,
    base: AgentContext,
    branches: impl IntoIterator<Item = B>,
    strategy: impl EvaluationStrategy,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<ParallelLoopResult, ParallelError> {
    let branches = branches.into_iter().map(Into::into).collect();
    let prepared = Plan { base, prompts, branches }.prepare(&cancel, &tx)?;
    prepared.run_and_select(&strategy, &tx, &cancel).await
}
