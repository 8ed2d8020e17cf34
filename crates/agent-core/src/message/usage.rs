//! Tokens used and what they cost (REQ-006, REQ-197). Money is counted in whole micro-units.

use serde::{Deserialize, Serialize};

use crate::model::{CostConfig, CostTier};

/// Tokens of one or more model calls. The four buckets `input`, `output`, `cache_read` and `cache_write` are
/// disjoint: a token is in exactly one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Tokens the model wrote, reasoning included.
    pub output: u64,
    /// The part of `output` that was reasoning.
    #[serde(default)]
    pub reasoning: u64,
    /// Prompt tokens read from a cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Prompt tokens written to a cache.
    #[serde(default)]
    pub cache_write: u64,
    /// The sum of the four buckets.
    #[serde(default)]
    pub total_tokens: u64,
}

/// Money, in micro-units of a currency (a millionth of a dollar). `total` is the sum of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cost {
    /// For prompt tokens.
    pub input: u64,
    /// For written tokens.
    pub output: u64,
    /// For cache reads.
    pub cache_read: u64,
    /// For cache writes.
    pub cache_write: u64,
    /// All of it.
    pub total: u64,
}

impl Usage {
    /// Usage from the four disjoint buckets; the total is their sum.
    #[must_use]
    pub fn new(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        let total_tokens =
            input.saturating_add(output).saturating_add(cache_read).saturating_add(cache_write);
        Self { input, output, reasoning: 0, cache_read, cache_write, total_tokens }
    }

    /// Whether nothing was used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The same usage, of which `reasoning` output tokens were reasoning.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: u64) -> Self {
        self.reasoning = reasoning;
        self
    }

    /// Prompt tokens of every kind.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// The share of the prompt that came from a cache, from 0 to 1; 0 for an empty prompt.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
    pub fn cache_hit_rate(&self) -> f64 {
        let prompt = self.prompt_tokens();
        if prompt == 0 { 0.0 } else { self.cache_read as f64 / prompt as f64 }
    }

    /// Both usages, field by field. A sum that does not fit stays at the largest number.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: self.reasoning.saturating_add(other.reasoning),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            total_tokens: self.total_tokens.saturating_add(other.total_tokens),
        }
    }

    /// What these tokens of one request cost at `prices`.
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
        };
        let tier =
            prices.tiers.iter().filter(|t| prompt > t.above).max_by_key(|t| t.above).copied().unwrap_or(base);
        let price = |tokens: u64, per_million: u64| {
            let exact = u128::from(tokens) * u128::from(per_million);
            u64::try_from((exact + 500_000) / 1_000_000).unwrap_or(u64::MAX)
        };
        let input = price(self.input, tier.input);
        let output = price(self.output, tier.output);
        let cache_read = price(self.cache_read, tier.cache_read);
        let cache_write = price(self.cache_write, tier.cache_write);
        let total = input.saturating_add(output).saturating_add(cache_read).saturating_add(cache_write);
        Cost { input, output, cache_read, cache_write, total }
    }
}

impl Cost {
    /// Both costs added.
    #[must_use]
    pub fn combine(&self, other: &Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            total: self.total.saturating_add(other.total),
        }
    }
}
