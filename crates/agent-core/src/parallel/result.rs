//! The result of a group of parallel loops.

use crate::evaluation::{EvaluationDecision, ParallelLoopOutcome};
use crate::identity::LoopId;
use crate::message::Usage;

/// What parallel loops gave: the selected branch, and all others.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParallelLoopResult {
    /// The group, as its events name it.
    pub group_id: LoopId,
    /// The selected branch, with its original messages.
    pub selected: ParallelLoopOutcome,
    /// All others, in their order.
    pub others: Vec<ParallelLoopOutcome>,
    /// How it was selected.
    pub decision: EvaluationDecision,
    /// Where the tokens went.
    pub usage: ParallelUsage,
    /// The loop of the judge, where one was asked.
    pub judge_loop_id: Option<LoopId>,
}

impl ParallelLoopResult {
    /// The selected branch's place.
    #[must_use]
    pub fn selected_index(&self) -> usize {
        self.selected.index
    }

    /// All branches, in their order.
    pub fn outcomes(&self) -> impl Iterator<Item = &ParallelLoopOutcome> {
        let before = self.others.iter().filter(|o| o.index < self.selected.index);
        let after = self.others.iter().filter(|o| o.index > self.selected.index);
        before.chain(std::iter::once(&self.selected)).chain(after)
    }

    /// All tokens.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.usage.total()
    }
}

/// Where the tokens of a group went. The three parts do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ParallelUsage {
    /// Turns of all branches.
    pub branches: Usage,
    /// What their tools used themselves: sub-agents.
    pub tools: Usage,
    /// The evaluation.
    pub evaluation: Usage,
}

impl ParallelUsage {
    pub(super) fn of(outcomes: &[ParallelLoopOutcome], evaluation: Usage) -> Self {
        let sum = |part: fn(&ParallelLoopOutcome) -> &Usage| {
            outcomes.iter().fold(Usage::default(), |sum, o| sum.combine(part(o)))
        };
        Self { branches: sum(|o| &o.usage), tools: sum(|o| &o.tool_usage), evaluation }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> Usage {
        self.branches.combine(&self.tools).combine(&self.evaluation)
    }
}
