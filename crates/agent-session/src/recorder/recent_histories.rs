//! The conversations of recent loops, so that a new loop is written as the difference to one of them.

use std::collections::VecDeque;

use agent_core::{History, LoopId};

/// The number of loops that are remembered. A loop whose origin was forgotten is written in full, which takes more space.
const MAX_KNOWN: usize = 16;

/// The conversations of recent loops, the newest last. Common parts are shared in memory.
#[derive(Debug, Default)]
pub(super) struct RecentHistories(VecDeque<(LoopId, History)>);

impl RecentHistories {
    /// Stores the current conversation of a loop.
    pub(super) fn note(&mut self, loop_id: &LoopId, history: History) {
        self.0.retain(|(known, _)| known != loop_id);
        if self.0.len() == MAX_KNOWN {
            self.0.pop_front();
        }
        self.0.push_back((loop_id.clone(), history));
    }

    /// Returns the loop whose conversation shares the longest beginning with this one; among equals, the one with the fewest
    /// other messages. Only loops that `may_be` accepts are considered.
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
