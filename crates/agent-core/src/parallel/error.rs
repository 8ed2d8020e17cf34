//! The errors of a group of parallel branches.

use crate::drive::LoopError;
use crate::evaluation::{EvaluationError, ParallelLoopOutcome};
use crate::journal::JournalError;

/// The reason for which no branch was selected, with the outcomes of the branches so far.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelError {
    /// No branch was given to run.
    #[error("there is no branch to run; give agent_loop_parallel at least one configuration")]
    NoBranches,
    /// The branches are not those of the group that is resumed. No branch has started.
    #[error(
        "the group has {planned} branches, and {given} were given; give the branches with which it was started, or end the \
         group with agent::discard_branches"
    )]
    OtherBranches {
        /// The number of branches of the group.
        planned: usize,
        /// The number of branches that were given.
        given: usize,
    },
    /// The prompt of a branch is not the one with which the group that is resumed was started. Nothing has been resumed.
    #[error(
        "branch {index} of the group was started with the prompt {recorded:?}, and {given:?} was given; give the prompts with \
         which it was started, or end the group with agent::discard_branches"
    )]
    OtherPrompt {
        /// The index of the branch, from 0.
        index: usize,
        /// The prompt with which it was started.
        recorded: String,
        /// The prompt that was given.
        given: String,
    },
    /// Branches wait for answers about calls that had started when a process ended, so that their outcomes are unknown. The
    /// group stays open.
    #[error(
        "a branch waits for an answer about a call that had started when the process ended; give the answer with \
         BranchSpec::answering, and explore the same branches again"
    )]
    Waiting {
        /// The outcomes of the branches, with the questions of those that wait.
        outcomes: Vec<ParallelLoopOutcome>,
    },
    /// A branch cannot start. No branch has started.
    #[error("branch {index} cannot start, so no branch was started: {source}")]
    Branch {
        /// The index of the branch, from 0.
        index: usize,
        /// The reason for which it cannot start.
        source: LoopError,
    },
    /// The caller aborted before a branch was selected.
    #[error("the branches were aborted before one was selected")]
    Aborted {
        /// The outcomes of the branches.
        outcomes: Vec<ParallelLoopOutcome>,
    },
    /// The evaluation selected no branch.
    #[error("no branch was selected: {source}")]
    Evaluation {
        /// The error of the evaluation.
        source: EvaluationError,
        /// The outcomes of the branches.
        outcomes: Vec<ParallelLoopOutcome>,
    },
    /// The journal failed to record the group. If this was the start of the group, no branch has started.
    #[error("the group of branches could not be recorded: {source}")]
    Journal {
        /// The error of the journal.
        source: JournalError,
        /// The outcomes of the branches.
        outcomes: Vec<ParallelLoopOutcome>,
    },
}

impl ParallelError {
    /// Returns the outcomes of the branches in order; empty if none has started.
    #[must_use]
    pub fn outcomes(&self) -> &[ParallelLoopOutcome] {
        match self {
            Self::NoBranches
            | Self::OtherBranches { .. }
            | Self::OtherPrompt { .. }
            | Self::Branch { .. } => &[],
            Self::Aborted { outcomes }
            | Self::Waiting { outcomes }
            | Self::Evaluation { outcomes, .. }
            | Self::Journal { outcomes, .. } => outcomes,
        }
    }
}
