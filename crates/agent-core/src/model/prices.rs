//! The prices of a model.

use serde::{Deserialize, Serialize};

/// Prices of a model, in micro-units of a currency per million tokens: 3,000,000 is 3 dollars.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CostConfig {
    /// For `Usage::input`.
    pub input: u64,
    /// For `Usage::output`.
    pub output: u64,
    /// For `Usage::cache_read`.
    pub cache_read: u64,
    /// For `Usage::cache_write`.
    pub cache_write: u64,
    /// Other prices for long prompts, by rising `above`. The whole request is priced by the last tier it reaches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<CostTier>,
    /// Whether the model costs nothing. Prices of nothing but zeros are otherwise prices that nobody knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
}

/// Prices that hold for requests with more than `above` prompt tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostTier {
    /// Prompt tokens (input and both cache buckets) above which these prices hold.
    pub above: u64,
    /// For `Usage::input`.
    pub input: u64,
    /// For `Usage::output`.
    pub output: u64,
    /// For `Usage::cache_read`.
    pub cache_read: u64,
    /// For `Usage::cache_write`.
    pub cache_write: u64,
}

impl CostConfig {
    /// Prices in micro-units per million tokens.
    #[must_use]
    pub fn per_million(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        Self { input, output, cache_read, cache_write, tiers: Vec::new(), free: false }
    }

    pub(crate) const fn unknown() -> Self {
        Self { input: 0, output: 0, cache_read: 0, cache_write: 0, tiers: Vec::new(), free: false }
    }

    /// The prices of a model that costs nothing, such as one on this machine.
    #[must_use]
    pub fn free() -> Self {
        Self { free: true, ..Self::default() }
    }

    /// Whether the prices are known: any of them is set, or the model is [`free`](Self::free).
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }

    /// The same prices with another tier.
    #[must_use]
    pub fn with_tier(mut self, tier: CostTier) -> Self {
        self.tiers.push(tier);
        self
    }
}
