//! Prompt caching: which parts of a request carry cache markers.

use serde::{Deserialize, Serialize};

/// The prompt caching of a request. Enabled by default, with automatic markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheConfig {
    /// Whether any marker is sent.
    pub enabled: bool,
    /// Which markers are sent.
    pub strategy: CacheStrategy,
}

/// Selects the cache markers of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CacheStrategy {
    /// Marks the system prompt, the last tool and the second-to-last message.
    #[default]
    Auto,
    /// Sends no cache markers.
    Disabled,
    /// Sends the markers that are switched on.
    #[serde(rename_all = "snake_case")]
    Manual {
        /// Whether the system prompt is marked.
        cache_system: bool,
        /// Whether the last tool is marked.
        cache_tools: bool,
        /// Whether the second-to-last message is marked.
        cache_messages: bool,
    },
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { enabled: true, strategy: CacheStrategy::Auto }
    }
}

impl CacheConfig {
    /// Creates a configuration that sends no markers.
    #[must_use]
    pub fn disabled() -> Self {
        Self { enabled: false, strategy: CacheStrategy::Disabled }
    }

    /// Returns whether the system prompt is marked.
    #[must_use]
    pub fn marks_system(&self) -> bool {
        self.marks(|system, _, _| system)
    }

    /// Returns whether the last tool is marked.
    #[must_use]
    pub fn marks_tools(&self) -> bool {
        self.marks(|_, tools, _| tools)
    }

    /// Returns whether the second-to-last message is marked.
    #[must_use]
    pub fn marks_messages(&self) -> bool {
        self.marks(|_, _, messages| messages)
    }

    fn marks(&self, pick: impl Fn(bool, bool, bool) -> bool) -> bool {
        self.enabled
            && match self.strategy {
                CacheStrategy::Auto => true,
                CacheStrategy::Disabled => false,
                CacheStrategy::Manual { cache_system, cache_tools, cache_messages } => {
                    pick(cache_system, cache_tools, cache_messages)
                }
            }
    }
}
