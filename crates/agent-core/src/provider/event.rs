//! The events that a provider emits while a reply arrives.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::server_call::ServerToolCall;
use crate::message::{Citation, StopReason, Usage};

/// The receiver of a provider's [`StreamEvent`]s. It is synchronous, never waits, and needs no allocation.
pub type EventSink<'s> = dyn FnMut(StreamEvent<'_>) + Send + 's;

/// A piece of a reply, borrowed from the network buffer.
///
/// Each block has a start, deltas and an end. `index` numbers the blocks of the reply from 0 in the order of their
/// starts; several blocks may be open at once. A delta without a start opens its block.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent<'a> {
    /// The provider began to answer.
    Start {
        /// The provider's id of the response.
        response_id: Option<&'a str>,
        /// The model that answers, if it differs from the requested one.
        model: Option<&'a str>,
    },
    /// A text block begins.
    TextStart {
        /// The index of the block.
        index: u32,
    },
    /// More text of a text block.
    TextDelta {
        /// The index of the block.
        index: u32,
        /// The text that arrived.
        delta: &'a str,
    },
    /// A signature of the text block, or a further piece of it.
    TextSignature {
        /// The index of the block.
        index: u32,
        /// The new piece of the signature.
        delta: &'a str,
    },
    /// A source of the text block.
    Citation {
        /// The index of the block.
        index: u32,
        /// The source and the cited part.
        citation: &'a Citation,
    },
    /// A thinking block begins.
    ThinkingStart {
        /// The index of the block.
        index: u32,
    },
    /// More text of a thinking block.
    ThinkingDelta {
        /// The index of the block.
        index: u32,
        /// The text that arrived.
        delta: &'a str,
    },
    /// A signature of the thinking block, or a further piece of it.
    ThinkingSignature {
        /// The index of the block.
        index: u32,
        /// The new piece of the signature.
        delta: &'a str,
    },
    /// A complete thinking block whose text the provider withheld.
    RedactedThinking {
        /// The index of the block.
        index: u32,
        /// The opaque form of the block.
        data: &'a str,
    },
    /// A tool call begins. The id and the name may be empty and follow in another start with the same index.
    ToolCallStart {
        /// The index of the block.
        index: u32,
        /// The id of the call.
        id: &'a str,
        /// The name of the tool.
        name: &'a str,
    },
    /// More text of a call's arguments.
    ToolCallDelta {
        /// The index of the block.
        index: u32,
        /// The text that arrived.
        delta: &'a str,
    },
    /// A signature of the tool call.
    ToolCallSignature {
        /// The index of the block.
        index: u32,
        /// The signature of the call.
        delta: &'a str,
    },
    /// A complete block of a kind that only its provider understands.
    Opaque {
        /// The index of the block.
        index: u32,
        /// The provider's name of the kind.
        kind: &'a str,
        /// The block as it is sent back.
        data: &'a Value,
    },
    /// The vendor begins or ends a call of one of its own tools. The blocks of the reply contain the call as well.
    ServerTool {
        /// The index of the block with the call or its result.
        index: u32,
        /// The call, as it is displayed.
        call: &'a ServerToolCall,
    },
    /// The block is complete.
    BlockEnd {
        /// The index of the block.
        index: u32,
    },
    /// The tokens used so far; replaces earlier reports.
    Usage(Usage),
    /// The provider sends requests to this address in another way, because the preferred one does not work there. Emitted
    /// once for each address, with the next reply that begins.
    Fallback {
        /// The transport that does not work, such as `WebSocket`.
        from: &'a str,
        /// The transport that the provider uses instead, such as `HTTP`.
        to: &'a str,
        /// Why the transport does not work.
        reason: &'a str,
    },
    /// An event that this version does not know. [`ReplyLog::unrecognised`](super::ReplyLog::unrecognised) counts such
    /// events.
    Unrecognised {
        /// The vendor's name of the event.
        name: &'a str,
    },
}

/// The end of a complete reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Completion {
    /// The stop reason: `Stop`, `Length`, `ToolUse` or `Paused`.
    pub stop_reason: StopReason,
    /// The vendor's own name of the reason.
    pub vendor_reason: Option<String>,
    /// The stop sequence that the model reached.
    pub stop_sequence: Option<String>,
    /// Why the vendor's prompt cache did not apply, if that was requested and the vendor gave a reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_miss: Option<CacheMiss>,
}

/// What a vendor reports about a prompt that its cache did not cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CacheMiss {
    /// The reason in the vendor's words, for example `tools_changed`.
    pub reason: String,
    /// The estimated tokens that would have been read from the cache; `None` if the vendor could not compare the requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_tokens: Option<u64>,
}

impl CacheMiss {
    /// Creates a report with the vendor's reason and the tokens that it names.
    #[must_use]
    pub fn new(reason: impl Into<String>, missed_tokens: Option<u64>) -> Self {
        Self { reason: reason.into(), missed_tokens }
    }
}

impl Completion {
    /// Creates the end of a reply with this stop reason.
    #[must_use]
    pub fn new(stop_reason: StopReason) -> Self {
        Self { stop_reason, vendor_reason: None, stop_sequence: None, cache_miss: None }
    }

    /// Sets the vendor's own name of the reason.
    #[must_use]
    pub fn with_vendor_reason(mut self, reason: impl Into<String>) -> Self {
        self.vendor_reason = Some(reason.into());
        self
    }

    /// Sets what the vendor reports about its prompt cache.
    #[must_use]
    pub fn with_cache_miss(mut self, miss: Option<CacheMiss>) -> Self {
        self.cache_miss = miss;
        self
    }

    /// Sets the stop sequence that the model reached.
    #[must_use]
    pub fn with_stop_sequence(mut self, sequence: Option<String>) -> Self {
        self.stop_sequence = sequence;
        self
    }
}
