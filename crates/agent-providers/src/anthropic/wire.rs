//! The members of events, blocks and errors that are read, under the vendor's names. All other members are skipped.
//!
//! All events share one flat type, because serde would copy every event to a buffer for a tagged enum.

use agent_core::EventSink;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::Text;
use crate::token_count::{self, Counts, Tokens};

/// An event of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) usage: Counts<Usage<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<ErrorBody<'a>>,
    #[serde(borrow)]
    pub(super) request_id: Text<'a>,
}

/// A reply: the head of a stream, or the whole reply in one body.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_sequence: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_details: Option<StopDetails<'a>>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) diagnostics: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) usage: Counts<Usage<'a>>,
}

/// The report about a prompt that the cache did not cover. Without a reason the comparison was not complete in time.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Diagnostics<'a> {
    #[serde(borrow)]
    pub(super) cache_miss_reason: Option<MissReason<'a>>,
}

/// The reason of the report.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MissReason<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) cache_missed_input_tokens: Tokens,
}

/// The members of a block that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) data: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citations: Option<&'a RawValue>,
}

/// The change in a `content_block_delta` or a `message_delta`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_sequence: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_details: Option<StopDetails<'a>>,
    #[serde(borrow)]
    pub(super) container: Option<&'a RawValue>,
}

/// The complete delta of an event, for a block of an unknown kind.
#[derive(Debug, Deserialize)]
pub(super) struct WholeDelta {
    pub(super) delta: serde_json::Map<String, serde_json::Value>,
}

/// The details of a refusal.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow)]
    pub(super) category: Text<'a>,
    #[serde(borrow)]
    pub(super) explanation: Text<'a>,
}

/// Token counts. An absent field leaves the earlier count unchanged.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage<'a> {
    input_tokens: Tokens,
    output_tokens: Tokens,
    cache_read_input_tokens: Tokens,
    cache_creation_input_tokens: Tokens,
    cache_creation: Counts<CacheCreation>,
    output_tokens_details: Counts<OutputDetails>,
    server_tool_use: Counts<ServerToolUse>,
    /// The model calls that the reply consists of.
    #[serde(borrow)]
    iterations: Option<&'a RawValue>,
}

impl Usage<'_> {
    /// Returns the counts in the order of `PartialUsage::merge`.
    pub(super) fn counts(&self) -> [Tokens; 6] {
        [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
            match self.output_tokens_details {
                Counts::Absent => Tokens::Absent,
                Counts::Given(details) => details.thinking_tokens,
                Counts::Unreadable => Tokens::Unreadable,
            },
            self.cache_creation.long(),
        ]
    }

    /// Returns the searches of the web that the vendor charges for.
    pub(super) fn searches(&self) -> Option<u64> {
        self.server_tool_use.given()?.web_search_requests.known()
    }

    /// Returns the tokens of the model calls that the counts of the reply leave out: a compaction, an adviser, or a model that
    /// declined before another one answered. `reply` is the sum of the counts of the reply.
    pub(super) fn extra(&self, reply: &agent_core::Usage, sink: &mut EventSink<'_>) -> agent_core::Usage {
        let none = agent_core::Usage::default();
        let Some(list) = self.iterations.filter(|list| list.get() != "null") else { return none };
        let Ok(calls) = serde_json::from_str::<Vec<Iteration<'_>>>(list.get()) else {
            token_count::report(1, sink);
            return none;
        };
        let all = calls.iter().fold(none, |sum, call| sum.combine(&call.usage()));
        // The counts of the reply are a part of the sum if the list has the call that wrote it.
        let is_listed = calls.iter().any(|call| matches!(call.kind.as_str(), "message" | "fallback_message"));
        let counted = if is_listed { *reply } else { none };
        let rest = |all: u64, counted: u64| all.saturating_sub(counted);
        agent_core::Usage::new(
            rest(all.input, counted.input),
            rest(all.output, counted.output),
            rest(all.cache_read, counted.cache_read),
            rest(all.cache_write, counted.cache_write),
        )
        .with_long_cache_write(rest(all.cache_write_long, counted.cache_write_long))
    }
}

/// The calls of the vendor's tools that are charged for.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct ServerToolUse {
    web_search_requests: Tokens,
}

/// A model call of the vendor, which may use another model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Iteration<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    input_tokens: Tokens,
    output_tokens: Tokens,
    cache_read_input_tokens: Tokens,
    cache_creation_input_tokens: Tokens,
    cache_creation: Counts<CacheCreation>,
}

impl Iteration<'_> {
    fn usage(&self) -> agent_core::Usage {
        agent_core::Usage::new(
            self.input_tokens.or_zero(),
            self.output_tokens.or_zero(),
            self.cache_read_input_tokens.or_zero(),
            self.cache_creation_input_tokens.or_zero(),
        )
        .with_long_cache_write(self.cache_creation.long().or_zero())
    }
}

/// The written tokens by their lifetime.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct CacheCreation {
    ephemeral_1h_input_tokens: Tokens,
}

impl Counts<CacheCreation> {
    /// Returns the written tokens with the longer lifetime.
    fn long(self) -> Tokens {
        match self {
            Self::Absent => Tokens::Absent,
            Self::Given(creation) => creation.ephemeral_1h_input_tokens,
            Self::Unreadable => Tokens::Unreadable,
        }
    }
}

/// Details of the output.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Tokens,
}

/// An error response or an error event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorAnswer<'a> {
    #[serde(borrow)]
    pub(super) error: Option<ErrorBody<'a>>,
    #[serde(borrow)]
    pub(super) request_id: Text<'a>,
}

/// The error of an error event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorBody<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow)]
    pub(super) details: Option<ErrorDetails<'a>>,
}

/// The details of the error.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorDetails<'a> {
    #[serde(borrow)]
    pub(super) error_code: Text<'a>,
}
