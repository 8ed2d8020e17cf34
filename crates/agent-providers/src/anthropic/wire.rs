//! The members of events, blocks and errors that are read, under the vendor's names. All other members are skipped.
//!
//! All events share one flat type, because serde would copy every event to a buffer for a tagged enum.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Count, Text};

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
    pub(super) usage: Option<Usage>,
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
    pub(super) usage: Option<Usage>,
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

/// Token counts. An absent or null field leaves the earlier count unchanged.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<Count>,
    pub(super) output_tokens: Option<Count>,
    pub(super) cache_read_input_tokens: Option<Count>,
    pub(super) cache_creation_input_tokens: Option<Count>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

impl Usage {
    /// Returns the counts in the order of `PartialUsage::merge`.
    pub(super) fn counts(self) -> [Option<Count>; 5] {
        [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_input_tokens,
            self.cache_creation_input_tokens,
            self.output_tokens_details.and_then(|details| details.thinking_tokens),
        ]
    }
}

/// Details of the output.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) thinking_tokens: Option<Count>,
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
