//! What a provider passes on while a reply arrives.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{StopReason, Usage};

/// Where a provider puts [`StreamEvent`]s. Synchronous: it never waits and costs no allocation.
pub type EventSink<'s> = dyn FnMut(StreamEvent<'_>) + Send + 's;

/// A piece of a reply, borrowed from what the network brought.
///
/// A block begins with its start, goes on with deltas and ends with its end. `index` counts the blocks of the reply
/// from 0 in the order of their starts; several may be open at once. A delta without a start opens its block.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent<'a> {
    /// The provider began to answer.
    Start {
        /// The provider's id of the response.
        response_id: Option<&'a str>,
        /// The model that answers, where it differs from the one that was asked.
        model: Option<&'a str>,
    },
    /// A text block begins.
    TextStart {
        /// The block.
        index: u32,
    },
    /// More text.
    TextDelta {
        /// The block.
        index: u32,
        /// The text.
        delta: &'a str,
    },
    /// A signature over the text block, or a further piece of one.
    TextSignature {
        /// The block.
        index: u32,
        /// The piece.
        delta: &'a str,
    },
    /// A thinking block begins.
    ThinkingStart {
        /// The block.
        index: u32,
    },
    /// More thinking.
    ThinkingDelta {
        /// The block.
        index: u32,
        /// The text.
        delta: &'a str,
    },
    /// A signature over the thinking block, or a further piece of one.
    ThinkingSignature {
        /// The block.
        index: u32,
        /// The piece.
        delta: &'a str,
    },
    /// A whole thinking block whose text the provider withheld.
    RedactedThinking {
        /// The block.
        index: u32,
        /// Its opaque form.
        data: &'a str,
    },
    /// A tool call begins. Id and name may be empty and come later, by another start of the same index.
    ToolCallStart {
        /// The block.
        index: u32,
        /// The call's id.
        id: &'a str,
        /// The tool's name.
        name: &'a str,
    },
    /// More of the arguments' text.
    ToolCallDelta {
        /// The block.
        index: u32,
        /// The text.
        delta: &'a str,
    },
    /// A signature over the call.
    ToolCallSignature {
        /// The block.
        index: u32,
        /// The signature.
        delta: &'a str,
    },
    /// A whole block of a kind that only its provider knows.
    Opaque {
        /// The block.
        index: u32,
        /// The provider's name of the kind.
        kind: &'a str,
        /// The block, as it is to be sent back.
        data: &'a Value,
    },
    /// The block is complete.
    BlockEnd {
        /// The block.
        index: u32,
    },
    /// Tokens used as far as is known; replaces what was said before.
    Usage(Usage),
    /// Something arrived that this version does not know. It is counted, not lost in silence (invariant 7).
    Unrecognised {
        /// The vendor's name for it.
        name: &'a str,
    },
}

/// How a complete reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Completion {
    /// Why it ended: `Stop`, `Length` or `ToolUse`.
    pub stop_reason: StopReason,
    /// The vendor's own word for it.
    pub vendor_reason: Option<String>,
    /// The stop sequence that was hit.
    pub stop_sequence: Option<String>,
}

impl Completion {
    /// A reply that ended for this reason.
    #[must_use]
    pub fn new(stop_reason: StopReason) -> Self {
        Self { stop_reason, vendor_reason: None, stop_sequence: None }
    }

    /// The same, with the vendor's own word.
    #[must_use]
    pub fn with_vendor_reason(mut self, reason: impl Into<String>) -> Self {
        self.vendor_reason = Some(reason.into());
        self
    }

    /// The same, with the stop sequence that was hit.
    #[must_use]
    pub fn with_stop_sequence(mut self, sequence: Option<String>) -> Self {
        self.stop_sequence = sequence;
        self
    }
}
