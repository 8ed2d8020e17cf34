//! What the conversations of recent loops were, so that a new loop can be written as what it adds to one of them.

use std::collections::VecDeque;

use agent_core::{History, LoopId};

/// How many loops are remembered. A loop whose origin has been forgotten is written in full, which costs room only.
const MAX_KNOWN: usize = 16;

/// Conversations of recent loops, by loop; the newest last. They share what they have in common.
#[derive(Debug, Default)]
pub(super) struct RecentHistories(VecDeque<(LoopId, History)>);

impl RecentHistories {
    /// The conversation of this loop is this now.
    pub(super) fn note(&mut self, loop_id: &LoopId, history: History) {
        self.0.retain(|(known, _)| known != loop_id);
        if self.0.len() == MAX_KNOWN {
            self.0.pop_front();
        }
        self.0.push_back((loop_id.clone(), history));
    }

    /// The loop whose conversation has most of this one's beginning; of equals the one that has least beyond it. Only loops that
    /// that `may_be` accepts are considered.
    pub(super) fn closest(
        &self,
        history: &History,
        may_be: impl Fn(&LoopId) -> bool,
    ) -> Option<(&LoopId, &History)> {
        let shared = |known: &History| history.shared_units(known);
        let candidates = self.0.iter().filter(|(id, _)| may_be(id)).map(|(id, h)| (shared(h), id, h));
        let best = candidates.max_by_key(|(shared, _, h)| (*shared, std::cmp::Reverse(h.unit_count())));
        match best {
            Some((0, ..)) | None => self.0.iter().rev().find(|(id, _)| may_be(id)).map(|(id, h)| (id, h)),
            Some((_, id, history)) => Some((id, history)),
        }
    }
}
