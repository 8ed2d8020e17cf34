//! Whether a request begins as the last one did, and if not, where, why, and what that costs (X8).
//!
//! Providers keep the beginning of a prompt for some minutes and charge a tenth for it when it comes again. It comes again
//! only where nothing in it changed. Each request is compared with the last one to the same model: what is shared is known by
//! its identity, so the comparison costs what is new. Where something in the past is not the same object, both requests are
//! encoded and their bytes compared; cache markers are left out, so a marker that moves is no break.
//!
//! A break is said by [`AgentEvent::CacheBroken`](crate::AgentEvent::CacheBroken), and only where it has a cost: a past that
//! was shortened at its end, or a changed last message, makes nobody read anything again.
//!
//! ```
//! use agent_core::testing::{ScriptedProvider, ScriptedReply};
//! use agent_core::{AgentEvent, BasicAgent, CacheBreakCause, ModelConfig};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let provider = ScriptedProvider::responding(|_| ScriptedReply::text("Done."));
//! let agent = BasicAgent::new(ModelConfig::default()).with_provider(provider).with_system_prompt("It is 10:00.");
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
mod json;
mod memory;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::identity::{LoopId, StepKey};
use crate::message::Usage;

pub(crate) use memory::{Found, Prefixes};

/// See [`AgentEvent::CacheBroken`](crate::AgentEvent::CacheBroken).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheBreak {
    /// The loop.
    pub loop_id: LoopId,
    /// The call of the model.
    pub step: StepKey,
    /// Where the request stops being the last one, as a path into its body: `system[0].text`, `tools[2].description`,
    /// `messages[4].content[0].input`. Where the provider does not say how it writes requests, the part: `system`,
    /// `tools[2]`, `messages[4]`.
    pub field: String,
    /// The offset of the first byte that differs, in the body without cache markers; absent where no body is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
    /// The message, where it is in one, by its place in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// Why, as far as it is known.
    pub cause: CacheBreakCause,
    /// Whether it was wanted: a compaction breaks the prefix to make it shorter.
    pub intended: bool,
    /// An estimate of the tokens that were sent before and are billed in full again: all that stands behind the break and
    /// did not change.
    pub rebilled_tokens: u64,
    /// What the provider says, where it reports what it read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<CacheFigures>,
}

/// What a provider says of its cache after a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheFigures {
    /// Tokens that this request read from the cache.
    pub read: u64,
    /// Tokens that this request wrote to the cache.
    pub written: u64,
    /// Tokens of the last prompt, as far as this one is as long: what could have been read.
    pub expected: u64,
}

impl CacheFigures {
    /// From what two requests in a row used; `None` where neither had to do with a cache.
    pub(crate) fn of(last: &Usage, this: &Usage) -> Option<Self> {
        let caches = [last, this].iter().any(|u| u.cache_read > 0 || u.cache_write > 0);
        caches.then(|| Self {
            read: this.cache_read,
            written: this.cache_write,
            expected: last.prompt_tokens().min(this.prompt_tokens()),
        })
    }

    /// Tokens that could have been read from the cache and were not.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.expected.saturating_sub(self.read)
    }
}

/// Why a request does not begin as the last one did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheBreakCause {
    /// Another system prompt.
    SystemPrompt,
    /// Other tools, or the same in another order.
    Tools {
        /// Names of new ones.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        added: Vec<String>,
        /// Names of those that are gone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<String>,
        /// Names of those with another description or schema.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
        /// Whether those that stayed stand in another order.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reordered: bool,
    },
    /// A setting that is part of the prompt: thinking, the choice of tools, the form of the answer.
    Setting {
        /// Which.
        name: String,
    },
    /// A message in the past was changed, taken out or put in.
    History,
    /// `transform_context` or `convert_to_llm` shows another past.
    ContextHook,
    /// The history was shortened.
    Compaction,
    /// Another model is asked; its cache has not seen this conversation.
    ModelSwitched {
        /// The model that was asked last.
        from: String,
        /// The model that is asked now.
        to: String,
    },
    /// The bytes differ, and nobody knows why.
    Unknown,
}
