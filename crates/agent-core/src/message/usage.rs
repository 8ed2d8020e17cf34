//! Token usage and its cost in whole micro-units of a currency.

use serde::{Deserialize, Serialize};

use crate::model::{CostConfig, CostTier};

/// The tokens of one or more model calls. The four buckets `input`, `output`, `cache_read` and `cache_write` are
/// disjoint: each token is counted in exactly one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens that the model wrote, including reasoning.
    pub output: u64,
    /// The part of `output` that was reasoning.
    #[serde(default)]
    pub reasoning: u64,
    /// Prompt tokens that were read from a cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Prompt tokens that were written to a cache.
    #[serde(default)]
    pub cache_write: u64,
    /// The part of `cache_write` with the longer of the vendor's lifetimes: one hour at Anthropic and Bedrock, twelve hours
    /// at OpenAI.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_write_long: u64,
    /// The sum of the four buckets.
    #[serde(default)]
    pub total_tokens: u64,
    /// The calls of the vendor's own tools, such as web searches, that the vendor executed.
    #[serde(default, skip_serializing_if = "is_no_call")]
    pub server_tool_calls: u32,
    /// The part of `server_tool_calls` that were searches of the web.
    #[serde(default, skip_serializing_if = "is_no_call")]
    pub web_searches: u32,
}

/// A cost in micro-units of a currency: 1,000,000 is one dollar. `total` is the sum of the other fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cost {
    /// The cost of uncached prompt tokens.
    pub input: u64,
    /// The cost of written tokens.
    pub output: u64,
    /// The cost of cache reads.
    pub cache_read: u64,
    /// The cost of cache writes.
    pub cache_write: u64,
    /// The cost of the calls of the vendor's own tools.
    #[serde(default, skip_serializing_if = "is_none")]
    pub server_tools: u64,
    /// The sum of all parts.
    pub total: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_no_call(calls: &u32) -> bool {
    *calls == 0
}

impl Usage {
    /// Creates a usage from the four disjoint buckets. The total is their sum.
    #[must_use]
    pub fn new(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        let total_tokens =
            input.saturating_add(output).saturating_add(cache_read).saturating_add(cache_write);
        Self { input, output, cache_read, cache_write, total_tokens, ..Self::default() }
    }

    /// Returns whether all counts are zero. A reply always uses tokens, so the usage of a reply is then unknown: the
    /// provider did not report it.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Sets how many of the output tokens were reasoning.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: u64) -> Self {
        self.reasoning = reasoning;
        self
    }

    /// Sets how many of the tokens that were written to a cache have the longer of the vendor's lifetimes.
    #[must_use]
    pub fn with_long_cache_write(mut self, tokens: u64) -> Self {
        self.cache_write_long = tokens;
        self
    }

    /// Sets how often the vendor executed tools of its own, and how many of these calls were searches of the web. Searches
    /// beyond the number of calls raise it.
    #[must_use]
    pub fn with_server_tool_calls(mut self, calls: u32, web_searches: u32) -> Self {
        self.server_tool_calls = calls.max(web_searches);
        self.web_searches = web_searches;
        self
    }

    /// Returns the prompt tokens: uncached, read from a cache, and written to a cache.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Returns the share of the prompt that came from a cache, from 0 to 1; 0 for an empty prompt.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the ratio is for display")]
    pub fn cache_hit_rate(&self) -> f64 {
        let prompt = self.prompt_tokens();
        if prompt == 0 { 0.0 } else { self.cache_read as f64 / prompt as f64 }
    }

    /// Returns the sum of both usages, field by field. Saturates instead of overflowing.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_write_long: self.cache_write_long.saturating_add(other.cache_write_long),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
            server_tool_calls: self.server_tool_calls.saturating_add(other.server_tool_calls),
            web_searches: self.web_searches.saturating_add(other.web_searches),
        }
    }

    /// Returns the cost of these tokens and calls at `prices`. The usage must be that of one request, because tiers depend on
    /// the prompt length.
    ///
    /// ```
    /// use agent_core::{CostConfig, Usage};
    /// let prices = CostConfig::per_million(3_000_000, 15_000_000, 300_000, 3_750_000);
    /// assert_eq!(Usage::new(1_000, 100, 0, 0).cost(&prices).total, 4_500);
    /// ```
    #[must_use]
    pub fn cost(&self, prices: &CostConfig) -> Cost {
        let prompt = self.prompt_tokens();
        let base = CostTier {
            above: 0,
            input: prices.input,
            output: prices.output,
            cache_read: prices.cache_read,
            cache_write: prices.cache_write,
            cache_write_long: prices.cache_write_long,
        };
        let tier =
            prices.tiers.iter().filter(|t| prompt > t.above).max_by_key(|t| t.above).copied().unwrap_or(base);
        let exact = |tokens: u64, per_million: u64| u128::from(tokens) * u128::from(per_million);
        let rounded = |exact: u128| u64::try_from((exact + 500_000) / 1_000_000).unwrap_or(u64::MAX);
        let price = |tokens: u64, per_million: u64| rounded(exact(tokens, per_million));
        let input = price(self.input, tier.input);
        let output = price(self.output, tier.output);
        let cache_read = price(self.cache_read, tier.cache_read);
        let long = self.cache_write_long.min(self.cache_write);
        let cache_write = rounded(
            exact(self.cache_write.saturating_sub(long), tier.cache_write)
                .saturating_add(exact(long, tier.cache_write_long.unwrap_or(tier.cache_write))),
        );
        let server_tools = self.server_tool_cost(prices);
        let total = input
            .saturating_add(output)
            .saturating_add(cache_read)
            .saturating_add(cache_write)
            .saturating_add(server_tools);
        Cost { input, output, cache_read, cache_write, server_tools, total }
    }

    /// Returns the cost of the calls of the vendor's own tools.
    fn server_tool_cost(&self, prices: &CostConfig) -> u64 {
        if self.server_tool_calls == 0 {
            return 0;
        }
        let price = |calls: u32, per_thousand: u64| {
            let exact = u128::from(calls) * u128::from(per_thousand);
            u64::try_from((exact + 500) / 1_000).unwrap_or(u64::MAX)
        };
        let others = self.server_tool_calls.saturating_sub(self.web_searches);
        price(self.web_searches, prices.web_search).saturating_add(price(others, prices.server_tool_call))
    }
}

impl Cost {
    /// Returns the sum of both costs, field by field. Saturates instead of overflowing.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            server_tools: self.server_tools.saturating_add(other.server_tools),
            total: self.total.saturating_add(other.total),
        }
    }
}
