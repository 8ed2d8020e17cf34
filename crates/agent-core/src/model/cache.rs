//! Where prompt-cache markers are put (REQ-014).

use serde::{Deserialize, Serialize};

/// Prompt caching. The default is on, with markers placed by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheConfig {
    /// Whether any marker is sent.
    pub enabled: bool,
    /// Which ones.
    pub strategy: CacheStrategy,
}

/// Which cache markers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CacheStrategy {
    /// System prompt, last tool and second-to-last message (REQ-126).
    #[default]
    Auto,
    /// None.
    Disabled,
    /// Each by its own switch (REQ-127).
    #[serde(rename_all = "snake_case")]
    Manual {
        /// A marker on the system prompt.
        cache_system: bool,
        /// A marker on the last tool.
        cache_tools: bool,
        /// A marker on the second-to-last message.
        cache_messages: bool,
    },
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { enabled: true, strategy: CacheStrategy::Auto }
    }
}

impl CacheConfig {
    /// No markers.
    #[must_use]
    pub fn disabled() -> Self {
        Self { enabled: false, strategy: CacheStrategy::Disabled }
    }

    /// Whether the system prompt is marked.
    #[must_use]
    pub fn marks_system(&self) -> bool {
        self.marks(|system, _, _| system)
    }

    /// Whether the last tool is marked.
    #[must_use]
    pub fn marks_tools(&self) -> bool {
        self.marks(|_, tools, _| tools)
    }

    /// Whether the second-to-last message is marked.
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
