//! Prompt caching: which parts of a request carry cache markers, and how long the vendor keeps what it caches.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ApiProtocol;

/// The prompt caching of a request. Enabled by default, with automatic markers and the vendor's default lifetime.
///
/// ```
/// use agent_core::{CacheConfig, CacheTtl};
/// // Tools and system prompt stay for an hour, the growing conversation for the vendor's default.
/// let config = CacheConfig::default().with_ttl(CacheTtl::OneHour).with_messages_ttl(CacheTtl::FiveMinutes);
/// assert!(config.enabled && config.marks_system());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheConfig {
    /// Whether any marker is sent.
    pub enabled: bool,
    /// Which markers are sent.
    pub strategy: CacheStrategy,
    /// The lifetime of what is cached. Default: the vendor's, for example 5 minutes for Claude. A vendor that does not have
    /// this lifetime gets its longest one that is not longer, or its default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<CacheTtl>,
    /// The lifetime of what the marker in the messages caches. Default: `ttl`. A longer one than `ttl` has no effect,
    /// because vendors accept a shorter lifetime only behind a longer one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_ttl: Option<CacheTtl>,
    /// Whether a vendor that places its own breakpoints receives explicit ones instead. Default: it places its own.
    #[serde(default, skip_serializing_if = "CacheBreakpoints::is_default")]
    pub breakpoints: CacheBreakpoints,
    /// Whether the vendor is requested to explain why its cache did not apply. Default: it is not.
    #[serde(default, skip_serializing_if = "CacheDiagnostics::is_default")]
    pub diagnostics: CacheDiagnostics,
    /// Whether the request only fills the cache and the model writes no reply. Default: the model replies.
    /// [`prewarm`](crate::provider::prewarm) sets it for one request.
    #[serde(default, skip_serializing_if = "CachePrewarm::is_default")]
    pub prewarm: CachePrewarm,
    /// How a change of the system prompt or the tools between two loops of a conversation is sent. Default: both are sent
    /// again, which breaks the cache.
    #[serde(default, skip_serializing_if = "CacheChanges::is_default")]
    pub changes: CacheChanges,
}

/// The lifetime of a cached prefix. Vendors count it from the last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheTtl {
    /// Five minutes: the default of Anthropic and Bedrock.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// Thirty minutes: the default of OpenAI.
    #[serde(rename = "30m")]
    ThirtyMinutes,
    /// One hour: the longer lifetime of Anthropic and Bedrock.
    #[serde(rename = "1h")]
    OneHour,
    /// Twelve hours: the longer lifetime of the OpenAI Responses API.
    #[serde(rename = "12h")]
    TwelveHours,
}

impl CacheTtl {
    /// Returns the name of the lifetime in the vendors' APIs, for example `1h`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FiveMinutes => "5m",
            Self::ThirtyMinutes => "30m",
            Self::OneHour => "1h",
            Self::TwelveHours => "12h",
        }
    }

    /// Returns the length of the lifetime.
    #[must_use]
    pub fn duration(self) -> Duration {
        const MINUTE: u64 = 60;
        Duration::from_secs(match self {
            Self::FiveMinutes => 5 * MINUTE,
            Self::ThirtyMinutes => 30 * MINUTE,
            Self::OneHour => 60 * MINUTE,
            Self::TwelveHours => 720 * MINUTE,
        })
    }
}

/// Who places the breakpoints of a cache that works without markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheBreakpoints {
    /// The vendor places them.
    #[default]
    Implicit,
    /// The request has those that the strategy selects, and the vendor places none. OpenAI accepts this for `gpt-5.6` and
    /// later models; other vendors' requests do not change.
    Explicit,
}

/// Whether a vendor explains why its cache did not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheDiagnostics {
    /// The vendor is not asked.
    #[default]
    Off,
    /// Each request names the reply before it, and a cache break has the vendor's reason. The Anthropic API and the OpenAI
    /// Responses API support it.
    On,
}

/// Whether a request only fills the prompt cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CachePrewarm {
    /// The model replies. This is the default.
    #[default]
    Off,
    /// The vendor reads the prompt, writes its cache and generates nothing. The OpenAI Responses API and the Anthropic API
    /// have it; any other request with it is an error before it is sent, whose source is a [`PrewarmError`].
    Only,
}

impl CachePrewarm {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::Off
    }
}

/// How a change of the system prompt or the tools is sent to a model that has seen the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheChanges {
    /// Requests have the new ones at their beginning, so that the vendor's cache does not apply. This is the default.
    #[default]
    Resend,
    /// Requests begin with the first system prompt and tools, and each change is a message in the vendor's own form at the
    /// point where it was made, so that the cache applies. Extension messages of the kind
    /// [`INSTRUCTIONS_NOTE`](crate::message::INSTRUCTIONS_NOTE) store both in the conversation. A change that the protocol or
    /// the model cannot express is sent as with `Resend`.
    Append,
}

impl CacheChanges {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::Resend
    }
}

/// Why a request cannot fill the prompt cache without a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrewarmError {
    /// The protocol has no such request.
    #[error("{protocol} cannot fill a prompt cache without a reply")]
    Protocol {
        /// The protocol of the model.
        protocol: ApiProtocol,
    },
    /// The model or its server has no cache that a request can fill, or caching is off for the request.
    #[error("the prompt cache of this model cannot be filled without a reply, or caching is off")]
    Model,
    /// The vendor refuses a setting of the request if there is no reply.
    #[error("a request that only fills the prompt cache cannot have the setting {name}")]
    Setting {
        /// The name of the setting, for example `tool_choice`.
        name: &'static str,
    },
}

impl PrewarmError {
    /// Returns what to do instead.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Protocol { .. } => {
                "use the OpenAI Responses API or the Anthropic API, or send no such request"
            }
            Self::Model => "use a model whose cache has this option, and leave caching enabled",
            Self::Setting { .. } => "leave the setting out of this request",
        }
    }
}

impl CacheBreakpoints {
    fn is_default(&self) -> bool {
        *self == Self::Implicit
    }
}

impl CacheDiagnostics {
    fn is_default(&self) -> bool {
        *self == Self::Off
    }
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
        Self {
            enabled: true,
            strategy: CacheStrategy::Auto,
            ttl: None,
            messages_ttl: None,
            breakpoints: CacheBreakpoints::Implicit,
            diagnostics: CacheDiagnostics::Off,
            prewarm: CachePrewarm::Off,
            changes: CacheChanges::Resend,
        }
    }
}

impl CacheConfig {
    /// Creates a configuration that sends no markers.
    #[must_use]
    pub fn disabled() -> Self {
        Self { enabled: false, strategy: CacheStrategy::Disabled, ..Self::default() }
    }

    /// Sets the lifetime of what is cached.
    #[must_use]
    pub fn with_ttl(mut self, ttl: CacheTtl) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets a shorter lifetime for what the marker in the messages caches.
    #[must_use]
    pub fn with_messages_ttl(mut self, ttl: CacheTtl) -> Self {
        self.messages_ttl = Some(ttl);
        self
    }

    /// Sends explicit breakpoints to a vendor that otherwise places its own.
    #[must_use]
    pub fn with_explicit_breakpoints(mut self) -> Self {
        self.breakpoints = CacheBreakpoints::Explicit;
        self
    }

    /// Asks the vendor why its cache did not apply.
    #[must_use]
    pub fn with_diagnostics(mut self) -> Self {
        self.diagnostics = CacheDiagnostics::On;
        self
    }

    /// Fills the cache without a reply.
    #[must_use]
    pub fn with_prewarm(mut self) -> Self {
        self.prewarm = CachePrewarm::Only;
        self
    }

    /// Appends changes of the system prompt and the tools instead of changing the beginning of requests.
    #[must_use]
    pub fn with_appended_changes(mut self) -> Self {
        self.changes = CacheChanges::Append;
        self
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
