//! The members of events, items and responses that are read, under the vendor's names. All other members are skipped.
//!
//! All events share one flat type, because serde would copy every event to a buffer for a tagged enum.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{Count, Text};
use crate::prompt_usage::{self, Basis, Place, Reply, Said};
use crate::token_count::{self, Counts, Tokens};

/// An event of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) output_index: Option<Count>,
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    pub(super) content_index: Count,
    pub(super) summary_index: Count,
    pub(super) command_index: Count,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) part: Option<Part<'a>>,
    #[serde(borrow)]
    pub(super) response: Option<Response<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The members of an item that determine how it is decoded.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
}

/// A message, or a reasoning item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spoken<'a> {
    #[serde(borrow)]
    pub(super) phase: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    pub(super) summary: Option<Vec<Part<'a>>>,
    #[serde(borrow)]
    pub(super) encrypted_content: Text<'a>,
}

/// A part of a message or of reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
}

impl Part<'_> {
    /// Returns the annotations of the text.
    pub(super) fn annotations(&self) -> Vec<Value> {
        self.annotations.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
    }
}

/// The response: the head of a stream, its end, or all of it when it came as one body.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    pub(super) usage: Counts<Usage>,
    #[serde(borrow)]
    pub(super) incomplete_details: Option<Incomplete<'a>>,
    #[serde(borrow)]
    pub(super) prompt_cache_diagnostics: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The report about a prompt that the cache did not cover. A miss has a reason, any other report only a type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CacheDiagnostics<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
    pub(super) cache_missed_tokens: Tokens,
}

/// Why a response is not whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}

/// Tokens. The input counts the cached ones as well.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    input_tokens: Tokens,
    output_tokens: Tokens,
    total_tokens: Tokens,
    input_tokens_details: Counts<InputDetails>,
    output_tokens_details: Counts<OutputDetails>,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Tokens,
    cache_write_tokens: Tokens,
    cache_write_tokens_details: Counts<WriteDetails>,
}

/// The written tokens by their lifetime.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct WriteDetails {
    ttl_12h_tokens: Tokens,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Tokens,
}

impl Usage {
    /// Returns the counts in disjoint categories.
    pub(super) fn disjoint(&self, reply: Reply) -> agent_core::Usage {
        let input = self.input_tokens_details.given().unwrap_or_default();
        let output = self.output_tokens_details.given().unwrap_or_default();
        let long = input.cache_write_tokens_details.given().unwrap_or_default().ttl_12h_tokens.or_zero();
        let usage = prompt_usage::disjoint(&Said {
            prompt: self.input_tokens.known(),
            output: self.output_tokens.known(),
            total: self.total_tokens.known(),
            cache_read: input.cached_tokens.known(),
            cache_write: input.cache_write_tokens.known(),
            audio: None,
            reasoning: output.reasoning_tokens.known(),
            cache: Place::Inside,
            thinking: Place::Inside,
            reply,
            basis: Basis::Stated,
        });
        usage.with_long_cache_write(long.min(usage.cache_write))
    }

    /// Returns how many counts are unreadable.
    pub(super) fn unreadable(&self) -> usize {
        let input = |i: &InputDetails| token_count::unreadable(&[i.cached_tokens, i.cache_write_tokens]);
        let output = |o: &OutputDetails| token_count::unreadable(&[o.reasoning_tokens]);
        token_count::unreadable(&[self.input_tokens, self.output_tokens, self.total_tokens])
            + self.input_tokens_details.unreadable(input)
            + self.output_tokens_details.unreadable(output)
    }
}
