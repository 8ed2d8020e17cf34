//! The members of events, blocks and errors that are read, under the vendor's names. All other members are skipped, so
//! an unknown member next to a known one is harmless.
//!
//! All events share one flat type. The header of a frame contains the name of its event.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Count, Text};
use crate::token_count::{Counts, Tokens};

/// An event of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) role: Text<'a>,
    pub(super) content_block_index: Option<Count>,
    #[serde(borrow)]
    pub(super) start: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) additional_model_response_fields: Option<&'a RawValue>,
    pub(super) usage: Counts<Usage>,
    #[serde(borrow)]
    pub(super) trace: Option<&'a RawValue>,
}

/// An event in a response with one JSON value per line. It is a member under its name, as in AWS's JSON form of unions.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) message_start: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content_block_start: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content_block_delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content_block_stop: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message_stop: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
}

/// The head of a block.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Start<'a> {
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolUse<'a>>,
}

/// The members of a block of a whole reply that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_use: Option<ToolUse<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Reasoning<'a>>,
    #[serde(borrow)]
    pub(super) citations_content: Option<CitationsContent<'a>>,
}

/// A text with its sources, in a whole reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CitationsContent<'a> {
    #[serde(borrow)]
    pub(super) content: Vec<ReasoningText<'a>>,
    pub(super) citations: Vec<serde_json::Value>,
}

/// A call.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ToolUse<'a> {
    #[serde(borrow)]
    pub(super) tool_use_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// The change in a block.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) tool_use: Option<Input<'a>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<Reasoning<'a>>,
    pub(super) citation: Option<serde_json::Value>,
}

/// A further piece of a call's arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Input<'a> {
    #[serde(borrow)]
    pub(super) input: Text<'a>,
}

/// Reasoning. In a stream, text and signature are direct members; in a whole reply they are in `reasoningText`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Reasoning<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) redacted_content: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_text: Option<ReasoningText<'a>>,
}

/// Readable reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReasoningText<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
}

/// The complete delta of an event, for a block of an unknown kind.
#[derive(Debug, Deserialize)]
pub(super) struct WholeDelta {
    pub(super) delta: serde_json::Map<String, serde_json::Value>,
}

/// Token counts. An absent or null field leaves the earlier count unchanged. Some models send the cache counts under two
/// names at once.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Usage {
    input_tokens: Tokens,
    output_tokens: Tokens,
    cache_read_input_tokens: Tokens,
    cache_write_input_tokens: Tokens,
    cache_read_input_token_count: Tokens,
    cache_write_input_token_count: Tokens,
    cache_details: LongWrites,
}

/// The written tokens with the longer lifetime, from a list of lifetimes.
#[derive(Debug, Default, Clone, Copy)]
struct LongWrites(Tokens);

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CacheDetail<'a> {
    #[serde(borrow)]
    ttl: Text<'a>,
    input_tokens: Tokens,
}

impl<'de> Deserialize<'de> for LongWrites {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(list) = Option::<&RawValue>::deserialize(deserializer)?.filter(|raw| raw.get() != "null")
        else {
            return Ok(Self::default());
        };
        let Ok(details) = serde_json::from_str::<Vec<CacheDetail<'_>>>(list.get()) else {
            return Ok(Self(Tokens::Unreadable));
        };
        let long = details.iter().filter(|detail| detail.ttl.as_str() == "1h");
        let sum = long.map(|detail| detail.input_tokens.or_zero()).fold(0, u64::saturating_add);
        Ok(Self(Tokens::Known(sum)))
    }
}

impl Usage {
    /// Returns the counts in the order of `PartialUsage::merge`. The vendor does not list reasoning separately.
    pub(super) fn counts(self) -> [Tokens; 6] {
        let read = self.cache_read_input_tokens.or(self.cache_read_input_token_count);
        let write = self.cache_write_input_tokens.or(self.cache_write_input_token_count);
        [self.input_tokens, self.output_tokens, read, write, Tokens::Absent, self.cache_details.0]
    }
}

/// The trace of a reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Trace<'a> {
    #[serde(borrow)]
    pub(super) guardrail: Option<Guardrail<'a>>,
}

/// The action of a guardrail.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Guardrail<'a> {
    #[serde(borrow)]
    pub(super) action_reason: Text<'a>,
}

/// A whole reply in one body.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Whole<'a> {
    #[serde(borrow)]
    pub(super) output: Option<Output<'a>>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) additional_model_response_fields: Option<&'a RawValue>,
    pub(super) usage: Counts<Usage>,
    #[serde(borrow)]
    pub(super) trace: Option<&'a RawValue>,
}

/// The member that contains the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Output<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
}

/// The message of the reply.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Vec<&'a RawValue>>,
}

/// An error response or the payload of an exception. Older endpoints write `Message` and name the kind in the body.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorBody<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow, rename = "Message")]
    pub(super) capital_message: Text<'a>,
    #[serde(borrow, rename = "originalMessage")]
    pub(super) original_message: Text<'a>,
    #[serde(borrow, rename = "__type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) code: Text<'a>,
}

impl ErrorBody<'_> {
    /// The message of the error.
    pub(super) fn said(&self) -> Option<&str> {
        self.message.filled().or_else(|| self.capital_message.filled())
    }

    /// The vendor's name for the kind of error.
    pub(super) fn name(&self) -> Option<&str> {
        self.kind.filled().or_else(|| self.code.filled())
    }
}
