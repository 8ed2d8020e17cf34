//! The token counts of a reply while it arrives.

use agent_core::{EventSink, Usage};

use crate::token_count::{self, Tokens};

/// The token counts received so far, in the order of [`merge`](Self::merge). A count that a later event omits keeps its
/// value.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PartialUsage {
    counts: [u64; 6],
    /// The counts that the others do not include.
    extra: Usage,
}

impl PartialUsage {
    /// Replaces the counts that are present: input, output, cache reads, cache writes, reasoning, and the cache writes with the
    /// longer lifetime, which the cache writes include. A 0 is a count like any other. But no prompt is empty: counts with a
    /// prompt of 0 are those of a relay that does not know them, and their zeros replace nothing.
    pub(crate) fn merge(&mut self, counts: [Tokens; 6], sink: &mut EventSink<'_>) {
        token_count::report(token_count::unreadable(&counts), sink);
        let [input, _, cache_read, cache_write, ..] = counts;
        let mut prompt = [input, cache_read, cache_write].into_iter().filter_map(Tokens::known).peekable();
        let is_known = prompt.peek().is_none() || prompt.any(|count| count > 0);
        for (slot, count) in self.counts.iter_mut().zip(counts) {
            *slot = count.known().filter(|count| is_known || *count > 0).unwrap_or(*slot);
        }
    }

    /// Sets the tokens that the counts do not include. No tokens replace nothing.
    #[cfg(feature = "anthropic")]
    pub(crate) fn add(&mut self, extra: Usage) {
        if !extra.is_zero() {
            self.extra = extra;
        }
    }

    /// Returns all tokens so far.
    pub(crate) fn total(self) -> Usage {
        self.counted().combine(&self.extra)
    }

    /// Returns the counts so far. The vendors' counts are disjoint, and reasoning is a part of the output unless it is larger.
    pub(crate) fn counted(self) -> Usage {
        let [input, output, cache_read, cache_write, reasoning, long] = self.counts;
        let output = if reasoning > output { output.saturating_add(reasoning) } else { output };
        Usage::new(input, output, cache_read, cache_write)
            .with_reasoning(reasoning)
            .with_long_cache_write(long.min(cache_write))
    }
}
