//! The token counts of a reply while it arrives.

use agent_core::Usage;

use crate::json::Count;

/// The token counts received so far, in the order of [`merge`](Self::merge). A count that a later event omits keeps its
/// value.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PartialUsage([u64; 5]);

impl PartialUsage {
    /// Replaces the counts that are present: input, output, cache reads, cache writes and reasoning.
    pub(crate) fn merge(&mut self, counts: [Option<Count>; 5]) {
        for (slot, count) in self.0.iter_mut().zip(counts) {
            *slot = count.map_or(*slot, |count| count.0);
        }
    }

    /// Returns the counts received so far. The vendors' counts are disjoint.
    pub(crate) fn total(self) -> Usage {
        let [input, output, cache_read, cache_write, reasoning] = self.0;
        Usage::new(input, output, cache_read, cache_write).with_reasoning(reasoning)
    }
}
