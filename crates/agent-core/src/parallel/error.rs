//! Why no branch was selected.

use crate::drive::LoopError;
use crate::evaluation::{EvaluationError, ParallelLoopOutcome};
use crate::journal::JournalError;

/// Why no branch was selected. What had become of the branches by then is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// There is nothing to run (D29).
    #[error("there is no branch to run; give agent_loop_parallel at least one configuration")]
    NoBranches,
    /// A branch cannot begin. None was begun.
    #[error("branch {index} cannot begin, so none was begun: {source}")]
    Branch {
        /// Its place, from 0.
        index: usize,
        /// Why.
        source: LoopError,
    },
    /// The caller aborted before one was selected.
    #[error("the branches were aborted before one was selected")]
    Aborted {
        /// What became of each.
        outcomes: Vec<ParallelLoopOutcome>,
    },
    /// The evaluation selected none.
    #[error("no branch was selected: {source}")]
    Evaluation {
        /// Why.
        source: EvaluationError,
        /// What became of each.
        outcomes: Vec<ParallelLoopOutcome>,
    },
    /// The group could not be written down. Where this was its announcement, no branch was begun.
    #[error("the group of branches could not be recorded: {source}")]
    Journal {
        /// Why.
        source: JournalError,
        /// What became of each.
        outcomes: Vec<ParallelLoopOutcome>,
    },
}

impl ParallelError {
    /// What became of the branches, in their order; none where they were not begun.
    #[must_use]
    pub fn outcomes(&self) -> &[ParallelLoopOutcome] {
        match self {
            Self::NoBranches | Self::Branch { .. } => &[],
            Self::Aborted { outcomes }
            | Self::Evaluation { outcomes, .. }
            | Self::Journal { outcomes, .. } => outcomes,
        }
    }
}
