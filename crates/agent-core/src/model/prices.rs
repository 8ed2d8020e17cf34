//! The prices of a model's tokens and of its vendor's tools.

use serde::{Deserialize, Serialize};

/// The prices of a model, in micro-units of a currency per million tokens: 3,000,000 is three dollars.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CostConfig {
    /// The price of uncached prompt tokens.
    pub input: u64,
    /// The price of written tokens.
    pub output: u64,
    /// The price of cache reads.
    pub cache_read: u64,
    /// The price of cache writes.
    pub cache_write: u64,
    /// The price of cache writes with the vendor's longer lifetime; see
    /// [`Usage::cache_write_long`](crate::Usage::cache_write_long). Default: `cache_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
    /// Different prices for long prompts, in ascending order of `above`. The last tier that a request reaches applies
    /// to the whole request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<CostTier>,
    /// The price of a thousand web searches by the vendor, in micro-units. Default: 0, they are not counted as a cost.
    #[serde(default, skip_serializing_if = "is_none")]
    pub web_search: u64,
    /// The price of a thousand calls of the vendor's other tools, in micro-units. Default: 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub server_tool_call: u64,
    /// Whether the model is free. Without this flag, prices that are all zero count as unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
}

/// The prices for requests with more than `above` prompt tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CostTier {
    /// The number of prompt tokens (uncached and both cache buckets) above which these prices apply.
    pub above: u64,
    /// The price of uncached prompt tokens.
    pub input: u64,
    /// The price of written tokens.
    pub output: u64,
    /// The price of cache reads.
    pub cache_read: u64,
    /// The price of cache writes.
    pub cache_write: u64,
    /// The price of cache writes with the vendor's longer lifetime. Default: `cache_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_long: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none(price: &u64) -> bool {
    *price == 0
}

impl CostConfig {
    /// Creates prices in micro-units per million tokens.
    #[must_use]
    pub fn per_million(input: u64, output: u64, cache_read: u64, cache_write: u64) -> Self {
        Self { input, output, cache_read, cache_write, ..Self::default() }
    }

    /// Sets the price of cache writes with the vendor's longer lifetime.
    #[must_use]
    pub fn with_long_cache_write(mut self, price: u64) -> Self {
        self.cache_write_long = Some(price);
        self
    }

    /// Sets the price of a thousand web searches and of a thousand calls of the vendor's other tools, in micro-units.
    #[must_use]
    pub fn with_server_tools(mut self, web_search: u64, other: u64) -> Self {
        self.web_search = web_search;
        self.server_tool_call = other;
        self
    }

    /// Creates the prices of a model that is free, such as a local one.
    #[must_use]
    pub fn free() -> Self {
        Self { free: true, ..Self::default() }
    }

    /// Returns whether the prices are known: at least one is set, or the model is [`free`](Self::free).
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::default()
    }

    /// Adds a tier of prices for long prompts.
    #[must_use]
    pub fn with_tier(mut self, tier: CostTier) -> Self {
        self.tiers.push(tier);
        self
    }
}
