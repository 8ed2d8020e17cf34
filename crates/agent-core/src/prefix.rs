//! Detects cache breaks: requests that do not extend the previous one, with the position, the cause and the cost.
//!
//! Providers cache the prefix of a prompt for some minutes and charge about a tenth for it when it is sent again
//! unchanged. Each request is compared with the last one to the same model. Shared parts are recognized by identity,
//! so the cost of the comparison depends only on the number of new messages. Where an old part is not the same object,
//! both requests are encoded and their bytes compared; cache markers are ignored, so a moved marker is not a break.
//!
//! A break is reported by [`AgentEvent::CacheBroken`](crate::AgentEvent::CacheBroken), and only if it has a cost: a
//! history that is shorter at its end, or a changed last message, causes no additional tokens.
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply};
//! use agent_core::{AgentEvent, BasicAgent, CacheBreakCause, ModelConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let provider = ScriptedProvider::responding(|_| ScriptedReply::text("Done."));
//! let mut agent = BasicAgent::new(ModelConfig::default()).with_provider(provider).with_system_prompt("It is 10:00.");
//! agent.chat("A long question, and much that belongs to it.").await?;
//! agent.set_system_prompt("It is 10:01.");
//! let events = agent.prompt("And now?")?.collect().await;
//! let broken = events.iter().find_map(|e| match e {
//!     AgentEvent::CacheBroken(broken) => Some(broken),
//!     _ => None,
//! });
//! let broken = broken.expect("the system prompt changed");
//! assert_eq!((broken.field.as_str(), &broken.cause), ("system", &CacheBreakCause::SystemPrompt));
//! # Ok::<(), agent_core::AgentError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bytes;
mod cause;
mod found;
mod json;
mod memory;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::identity::{LoopId, StepKey, Timestamp};
use crate::message::Usage;
use crate::provider::CacheMiss;

pub(crate) use memory::{Found, Prefixes};

/// The data of [`AgentEvent::CacheBroken`](crate::AgentEvent::CacheBroken).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheBreak {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The key of the model call.
    pub step: StepKey,
    /// The path in the body at which the request differs from the last one: `system[0].text`, `tools[2].description`,
    /// `messages[4].content[0].input`. If the provider does not expose bodies, the part: `system`, `tools[2]`,
    /// `messages[4]`. `model` for another model, `cache` for an expired entry, and empty if it is unknown.
    pub field: String,
    /// The offset of the first different byte in the body without cache markers; `None` if no body is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
    /// The index of the message in the request, if the break is in a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// The cause, as far as it is known.
    pub cause: CacheBreakCause,
    /// Whether the break is intended: a compaction breaks the prefix to shorten it, and found tools are added to the list of
    /// an agent with [deferred tools](crate::Tools::deferred).
    pub intended: bool,
    /// The estimated tokens that were sent before and are charged in full again: everything unchanged after the
    /// break.
    pub rebilled_tokens: u64,
    /// The provider's cache figures, if it reports what it read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<CacheFigures>,
    /// The vendor's own reason, if it was requested with
    /// [`CacheConfig::with_diagnostics`](crate::CacheConfig::with_diagnostics).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<CacheMiss>,
}

/// The model call whose request is compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) loop_id: &'c LoopId,
    pub(crate) step: &'c StepKey,
    pub(crate) now: Timestamp,
}

impl CacheBreak {
    /// Creates a break without a position.
    pub(crate) fn new(call: Call<'_>, field: &str, cause: CacheBreakCause, rebilled_tokens: u64) -> Self {
        Self {
            loop_id: call.loop_id.clone(),
            step: call.step.clone(),
            field: field.to_owned(),
            byte: None,
            message: None,
            intended: cause == CacheBreakCause::Compaction,
            cause,
            rebilled_tokens,
            reported: None,
            vendor: None,
        }
    }

    /// Creates the break that only the vendor noticed, for example because a request hook changed the body; `None` if it
    /// names no missed tokens.
    pub(crate) fn by_vendor(call: Call<'_>, miss: CacheMiss) -> Option<Self> {
        let tokens = miss.missed_tokens.filter(|tokens| *tokens > 0)?;
        Some(Self { vendor: Some(miss), ..Self::new(call, "", CacheBreakCause::Unknown, tokens) })
    }
}

/// The cache figures that a provider reports after a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheFigures {
    /// The tokens that this request read from the cache.
    pub read: u64,
    /// The tokens that this request wrote to the cache.
    pub written: u64,
    /// The tokens that could have been read: those of the last prompt, at most as many as this prompt has.
    pub expected: u64,
}

impl CacheFigures {
    /// Computes the figures from the usage of two consecutive requests; `None` if neither used a cache.
    pub(crate) fn of(last: &Usage, this: &Usage) -> Option<Self> {
        let caches = [last, this].iter().any(|u| u.cache_read > 0 || u.cache_write > 0);
        caches.then(|| Self {
            read: this.cache_read,
            written: this.cache_write,
            expected: last.prompt_tokens().min(this.prompt_tokens()),
        })
    }

    /// Returns the tokens that could have been read from the cache and were not.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.expected.saturating_sub(self.read)
    }
}

/// The cause of a cache break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheBreakCause {
    /// The system prompt changed.
    SystemPrompt,
    /// The tools or their order changed.
    Tools {
        /// The names of new tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
        /// The names of removed tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<String>,
        /// The names of tools with a changed description or schema.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
        /// Whether the remaining tools have a different order.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reordered: bool,
    },
    /// A setting that is part of the prompt changed: thinking, tool choice, the vendor's tools, or answer format.
    Setting {
        /// The name of the setting.
        name: String,
    },
    /// An old message was changed, removed or inserted.
    History,
    /// The `transform_context` or `convert_to_llm` hook returned a different history.
    ContextHook,
    /// The history was compacted.
    Compaction,
    /// A different model is called, whose cache does not contain this conversation.
    ModelSwitched {
        /// The model of the last request.
        from: String,
        /// The model of this request.
        to: String,
    },
    /// The requests extend each other, but more time passed between them than the vendor keeps its cache, and less was
    /// read from it than the last request had stored.
    Expired {
        /// The lifetime of the cached prefix, in seconds.
        lifetime_seconds: u64,
        /// The time between the two requests, in seconds.
        idle_seconds: u64,
    },
    /// The bytes differ for an unknown reason, or only the vendor noticed the break.
    Unknown,
}
