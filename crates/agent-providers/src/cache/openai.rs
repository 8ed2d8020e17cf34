//! The options of OpenAI's prompt cache, which `gpt-5.6` and later models accept.

use std::time::Duration;

use agent_core::model::CachePrewarm;
use agent_core::{CacheBreakpoints, CacheTtl, ModelRequest};

use super::Lifetimes;
use crate::json::Members;

/// The lifetime of entries if a request names none.
const DEFAULT: CacheTtl = CacheTtl::ThirtyMinutes;

/// The first version of a GPT model that accepts the options.
const FIRST: (u32, u32) = (5, 6);

/// The prompt-cache options of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenAiCache {
    lifetimes: Lifetimes,
    breakpoints: CacheBreakpoints,
    prewarm: CachePrewarm,
}

impl OpenAiCache {
    /// Returns the options of a request to OpenAI's own API, which offers these lifetimes; `None` if the model does not
    /// accept options, or caching is off. A deployment whose name is not that of its model counts as an older model.
    pub(crate) fn of(request: &ModelRequest, offered: &[CacheTtl]) -> Option<Self> {
        let config = &request.options.cache_config;
        let takes = request.model.prompt_cache && version(&request.model.id).is_some_and(|v| v >= FIRST);
        (takes && config.enabled).then(|| Self {
            lifetimes: Lifetimes::of(config, offered),
            breakpoints: config.breakpoints,
            prewarm: config.prewarm,
        })
    }

    /// Returns whether the request places the breakpoints.
    pub(crate) fn is_explicit(self) -> bool {
        self.breakpoints == CacheBreakpoints::Explicit
    }

    /// Returns the lifetime of entries whose breakpoint names none. A breakpoint of the vendor covers the whole prompt.
    fn ttl(self) -> CacheTtl {
        if self.is_explicit() { self.lifetimes.messages } else { self.lifetimes.prefix }
    }

    /// Returns the time without use after which a part of what a request caches is gone.
    pub(crate) fn lifetime(self) -> Duration {
        self.ttl().duration()
    }

    /// Writes the options, if they differ from the vendor's defaults. `compared` is the id of the response to compare with.
    pub(crate) fn write(self, body: &mut Members<'_>, compared: Option<&str>) {
        let ttl = Some(self.ttl()).filter(|ttl| *ttl != DEFAULT);
        let prewarms = self.prewarm == CachePrewarm::Only;
        if ttl.is_none() && compared.is_none() && !self.is_explicit() && !prewarms {
            return;
        }
        let mut options = Members::open(body.key("prompt_cache_options"));
        if self.is_explicit() {
            options.field("mode", "explicit");
        }
        if let Some(ttl) = ttl {
            options.field("ttl", ttl.as_str());
        }
        if let Some(id) = compared {
            options.field("comparison_response_id", id);
        }
        if prewarms {
            options.field("prewarm", &true);
        }
        options.close();
    }

    /// Returns the breakpoint of the system prompt, if the request has one. It is inserted before the closing brace of a block.
    pub(crate) fn of_system(self, request: &ModelRequest) -> &'static [u8] {
        let longer = self.lifetimes.prefix > self.lifetimes.messages;
        match self.is_explicit() && request.options.cache_config.marks_system() {
            true if longer => br#","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}"#,
            true => BREAKPOINT,
            false => b"",
        }
    }

    /// Returns the breakpoint of the messages, if the request has one.
    pub(crate) fn of_messages(self, request: &ModelRequest) -> &'static [u8] {
        let marks = self.is_explicit() && request.options.cache_config.marks_messages();
        if marks { BREAKPOINT } else { b"" }
    }
}

/// A breakpoint with the lifetime of the request.
const BREAKPOINT: &[u8] = br#","prompt_cache_breakpoint":{"mode":"explicit"}"#;

/// Returns the version of a GPT model by its id: 5.6 for `gpt-5.6-sol`.
pub(crate) fn version(id: &str) -> Option<(u32, u32)> {
    let rest = id.strip_prefix("gpt-")?;
    let number = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}
