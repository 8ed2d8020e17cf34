//! Parallel branches: runs several loops over one conversation concurrently and selects one of them.
//!
//! [`agent_loop_parallel`] runs one loop per [`Branch`], each over a clone of the same context (O(1)), waits for all
//! of them, and lets an [`EvaluationStrategy`] select one. The outcomes of the other branches are returned as well.
//!
//! - A branch that fails, is rejected or panics is an outcome; the other branches continue.
//! - One token cancels all branches and the judge. Cancelling one branch does not affect the others.
//! - All events go to one stream and carry the id of their loop. Each branch has exactly one terminal event. The
//!   group has a `ParallelLoopStart` before and a `ParallelLoopEnd` after all of them, even if the future is dropped.
//! - The ids of branches are unique in the session, however often branches run. They derive from the group's id.
//!
//! [`Group`] decides all of this as plain data. A driver of your own performs its steps, and another process can continue
//! it from its [`GroupCheckpoint`] and the runs of its loops (`docs/guides/own-driver.md`).
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
mod machine;
mod open;
mod plan;
mod result;

use tokio_util::sync::CancellationToken;

pub use branch::Branch;
pub use error::ParallelError;
pub use machine::{Group, GroupCheckpoint, GroupEnd, GroupInput, GroupStep};
pub use plan::GroupPlan;
pub use result::{ParallelLoopResult, ParallelUsage};

pub use crate::drive::GroupLoop;
pub use crate::evaluation::{BranchEnd, GroupSetup, ParallelLoopOutcome};
pub(crate) use open::{GroupRecord, not_adopted, selection};
pub(crate) use plan::Prepared;

use crate::drive::{AgentContext, EventSender};
use crate::evaluation::EvaluationStrategy;
use crate::message::AgentMessage;

/// Runs a loop for each branch over the same context and prompts concurrently, and selects one.
///
/// Without prompts, each branch continues from the messages of the context, as
/// [`agent_loop_continue`](crate::agent_loop_continue) does. Missing ids are created. The branches name the context's
/// loop as their parent and are continuations of the kind `Branch`.
///
/// A branch that waits for an answer counts as a branch without an answer; its run is in the context of its outcome.
///
/// # Errors
/// Returns an error if there is no branch or one could not start; no event has been sent then. Also returns an error,
/// which contains the outcomes, if no branch could be selected, the run was cancelled, or the journal failed.
pub async fn agent_loop_parallel<B: Into<Branch>>(
    prompts: Vec<AgentMessage>,
    base: AgentContext,
    branches: impl IntoIterator<Item = B>,
    strategy: impl EvaluationStrategy,
    tx: EventSender,
    cancel: CancellationToken,
) -> Result<ParallelLoopResult, ParallelError> {
    let branches = branches.into_iter().map(Into::into).collect();
    let prepared = Prepared::new(GroupPlan::new(&prompts, base, branches)?, &tx, &cancel);
    prepared.run_and_select(&strategy, &tx, &cancel).await
}
