//! Token counts of a chunk, under the names of all vendors.

use serde::Deserialize;

use crate::prompt_usage::{self, Basis, Place, Reply, Said};
use crate::token_count::{self, Counts, Tokens, largest};

/// The token counts of a reply.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    prompt_tokens: Tokens,
    completion_tokens: Tokens,
    total_tokens: Tokens,
    prompt_tokens_details: Counts<PromptDetails>,
    completion_tokens_details: Counts<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Tokens,
    /// Moonshot's name for cached tokens.
    cached_tokens: Tokens,
    /// Anthropic's names, which gateways to its protocol send.
    input_tokens: Tokens,
    output_tokens: Tokens,
    cache_read_input_tokens: Tokens,
    cache_creation_input_tokens: Tokens,
    /// OpenRouter's price of the reply.
    cost: Tokens,
    /// Perplexity's place for the tokens of thinking.
    reasoning_tokens: Tokens,
}

/// Details of the prompt.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct PromptDetails {
    audio_tokens: Tokens,
    cached_tokens: Tokens,
    cache_write_tokens: Tokens,
}

/// Details of the reply.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Tokens,
}

/// Groq's member of a chunk, as far as it counts tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Groq {
    pub(super) usage: Counts<Box<Usage>>,
}

impl Usage {
    /// Returns the counts in disjoint categories.
    pub(super) fn disjoint(&self, reply: Reply) -> agent_core::Usage {
        let prompt = self.prompt_tokens_details.given();
        let completion = self.completion_tokens_details.given();
        let details = prompt.unwrap_or_default();
        let of_anthropic = self.prompt_tokens.known().is_none() && prompt.is_none();
        prompt_usage::disjoint(&Said {
            prompt: self.prompt_tokens.known().or(self.input_tokens.known()),
            output: self.completion_tokens.known().or(self.output_tokens.known()),
            total: self.total_tokens.known(),
            cache_read: largest(&[
                details.cached_tokens,
                self.prompt_cache_hit_tokens,
                self.cached_tokens,
                self.cache_read_input_tokens,
            ]),
            cache_write: largest(&[details.cache_write_tokens, self.cache_creation_input_tokens]),
            audio: details.audio_tokens.known(),
            reasoning: largest(&[completion.unwrap_or_default().reasoning_tokens, self.reasoning_tokens]),
            cache: if of_anthropic { Place::Beside } else { Place::Inside },
            thinking: Place::Inside,
            reply,
            basis: if self.cost.known().is_some() { Basis::Charged } else { Basis::Stated },
        })
    }

    /// Returns how many counts are unreadable.
    pub(super) fn unreadable(&self) -> usize {
        let prompt = |p: &PromptDetails| {
            token_count::unreadable(&[p.audio_tokens, p.cached_tokens, p.cache_write_tokens])
        };
        let completion = |c: &CompletionDetails| token_count::unreadable(&[c.reasoning_tokens]);
        let here = token_count::unreadable(&[
            self.prompt_tokens,
            self.completion_tokens,
            self.total_tokens,
            self.prompt_cache_hit_tokens,
            self.cached_tokens,
            self.input_tokens,
            self.output_tokens,
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
            self.reasoning_tokens,
        ]);
        here + self.prompt_tokens_details.unreadable(prompt)
            + self.completion_tokens_details.unreadable(completion)
    }
}
