//! Tokens in disjoint buckets (B-151), for the protocols that count cached tokens as prompt tokens as well.

use agent_core::Usage;

/// What a vendor said.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Said {
    /// All tokens of the prompt, the cached ones among them.
    pub(crate) prompt: u64,
    /// Tokens of the answer.
    pub(crate) output: u64,
    /// All tokens; 0 when it was not said.
    pub(crate) total: u64,
    /// Tokens of the prompt that were read from the cache.
    pub(crate) cache_read: u64,
    /// Tokens of the prompt that were put into the cache.
    pub(crate) cache_write: u64,
    /// Tokens of thinking.
    pub(crate) reasoning: u64,
}

/// The same in disjoint buckets.
pub(crate) fn disjoint(said: &Said) -> Usage {
    let read = said.cache_read.min(said.prompt);
    let write = said.cache_write.min(said.prompt - read);
    let mut output = said.output;
    // xAI counts reasoning beside the completion, everybody else within it; the total tells which.
    let beside = said.prompt.saturating_add(output).saturating_add(said.reasoning);
    if said.reasoning > 0 && said.total == beside {
        output = output.saturating_add(said.reasoning);
    }
    Usage::new(said.prompt - read - write, output, read, write).with_reasoning(said.reasoning.min(output))
}
