//! The lifetimes that a vendor offers for its prompt cache, and those that a request gets.

#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
pub(crate) mod openai;

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_core::model::{CachePrewarm, PrewarmError};
use agent_core::{CacheConfig, CacheTtl, ModelRequest, ProviderError};

use crate::request::refuse_setting;

#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
pub(crate) use openai::OpenAiCache;

/// The lifetimes of Anthropic's models, of which the first is the default.
pub(crate) const OF_CLAUDE: &[CacheTtl] = &[CacheTtl::FiveMinutes, CacheTtl::OneHour];

/// Returns Anthropic's marker of the end of a cacheable prefix. It is inserted before the closing brace of a block.
pub(crate) fn marker(ttl: CacheTtl) -> &'static [u8] {
    match ttl {
        CacheTtl::OneHour => br#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
        _ => br#","cache_control":{"type":"ephemeral"}"#,
    }
}

/// Returns whether a request only fills the cache.
pub(crate) fn prewarms(request: &ModelRequest) -> bool {
    request.options.cache_config.prewarm == CachePrewarm::Only
}

/// Checks that a request of a protocol without prewarming does not ask for it.
///
/// # Errors
/// Returns an error whose source is a [`PrewarmError`].
#[cfg_attr(
    not(any(feature = "openai-chat", feature = "google", feature = "bedrock", feature = "ollama")),
    allow(dead_code, reason = "the other protocols have prewarming")
)]
pub(crate) fn refuse_prewarm(request: &ModelRequest) -> Result<(), ProviderError> {
    if prewarms(request) {
        return Err(not_prewarmed(request, PrewarmError::Protocol { protocol: request.model.api }));
    }
    Ok(())
}

/// Returns the error of a request that cannot fill the cache without a reply.
pub(crate) fn not_prewarmed(request: &ModelRequest, error: PrewarmError) -> ProviderError {
    let advice = error.advice();
    refuse_setting(&request.model, error, advice)
}

/// The lifetimes of what a request caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    /// The lifetime of the tools and the system prompt.
    pub(crate) prefix: CacheTtl,
    /// The lifetime of the messages. It is never longer than that of the prefix, because vendors reject that.
    pub(crate) messages: CacheTtl,
}

impl Lifetimes {
    /// Returns the lifetimes of a request to a vendor with these lifetimes in ascending order, of which the first is its
    /// default. A configured lifetime becomes the longest one that is not longer, or the default.
    pub(crate) fn of(config: &CacheConfig, offered: &[CacheTtl]) -> Self {
        let default = offered.first().copied().unwrap_or(CacheTtl::FiveMinutes);
        let fit = |ttl: CacheTtl| offered.iter().copied().rfind(|offer| *offer <= ttl).unwrap_or(default);
        let prefix = config.ttl.map_or(default, fit);
        let messages = config.messages_ttl.map_or(prefix, fit).min(prefix);
        Self { prefix, messages }
    }

    /// Returns the time without use after which a part of what the markers of a request cache is gone; `None` if the request
    /// has no markers.
    pub(crate) fn shortest(self, config: &CacheConfig) -> Option<Duration> {
        if config.marks_messages() {
            Some(self.messages.duration())
        } else if config.marks_system() || config.marks_tools() {
            Some(self.prefix.duration())
        } else {
            None
        }
    }
}
