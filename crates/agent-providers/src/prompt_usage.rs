//! Token counts in disjoint categories, for protocols whose prompt count includes cached tokens.

use agent_core::Usage;

/// The counts of a vendor.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Said {
    /// Tokens of the prompt, including cached ones.
    pub(crate) prompt: u64,
    /// Tokens of the reply.
    pub(crate) output: u64,
    /// All tokens; 0 if the vendor does not report it.
    pub(crate) total: u64,
    /// Tokens of the prompt that were read from the cache.
    pub(crate) cache_read: u64,
    /// Tokens of the prompt that were put into the cache.
    pub(crate) cache_write: u64,
    /// Tokens of thinking.
    pub(crate) reasoning: u64,
}

/// Returns the counts in disjoint categories.
pub(crate) fn disjoint(said: &Said) -> Usage {
    let read = said.cache_read.min(said.prompt);
    let write = said.cache_write.min(said.prompt - read);
    let mut output = said.output;
    // xAI counts reasoning in addition to the completion, other vendors as a part of it. The total shows which applies.
    let beside = said.prompt.saturating_add(output).saturating_add(said.reasoning);
    if said.reasoning > 0 && said.total == beside {
        output = output.saturating_add(said.reasoning);
    }
    Usage::new(said.prompt - read - write, output, read, write).with_reasoning(said.reasoning.min(output))
}
