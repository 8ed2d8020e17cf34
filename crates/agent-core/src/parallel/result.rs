//! The result of a group of parallel loops.

use serde::{Deserialize, Serialize};

use crate::evaluation::{EvaluationDecision, ParallelLoopOutcome};
use crate::identity::LoopId;
use crate::message::Usage;

/// The result of parallel loops: the selected branch and all others.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParallelLoopResult {
    /// The id of the group, as its events carry it.
    pub group_id: LoopId,
    /// The selected branch, with its original messages.
    pub selected: ParallelLoopOutcome,
    /// All other branches, in order.
    pub others: Vec<ParallelLoopOutcome>,
    /// How the branch was selected.
    pub decision: EvaluationDecision,
    /// The token usage of the group.
    pub usage: ParallelUsage,
    /// The loop of the judge, if a model judged.
    pub judge_loop_id: Option<LoopId>,
}

impl ParallelLoopResult {
    /// Returns the index of the selected branch.
    #[must_use]
    pub fn selected_index(&self) -> usize {
        self.selected.index
    }

    /// Returns all branches, in order.
    pub fn outcomes(&self) -> impl Iterator<Item = &ParallelLoopOutcome> {
        let before = self.others.iter().filter(|o| o.index < self.selected.index);
        let after = self.others.iter().filter(|o| o.index > self.selected.index);
        before.chain(std::iter::once(&self.selected)).chain(after)
    }

    /// Returns the sum of all tokens.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.usage.total()
    }
}

/// The token usage of a group, in three disjoint parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelUsage {
    /// The tokens of the turns of all branches.
    pub branches: Usage,
    /// The tokens that their tools used themselves, such as sub-agents.
    pub tools: Usage,
    /// The tokens of the evaluation.
    pub evaluation: Usage,
}

impl ParallelUsage {
    /// Returns the sum of the three parts.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.branches.combine(&self.tools).combine(&self.evaluation)
    }
}
