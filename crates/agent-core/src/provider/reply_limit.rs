//! The limits of one reply, which protect the memory of the program whatever a server sends.

use super::error::{ErrorContext, ErrorKind, ProviderError};
use crate::model::ModelConfig;
use crate::value_depth::MAX_VALUE_DEPTH;

/// Maximum size of one reply in bytes: its text, thinking, signatures, tool arguments and opaque
/// blocks together. A larger reply fails
/// with [`ErrorKind::Other`].
pub const MAX_REPLY_BYTES: usize = 64 << 20;

/// Maximum number of content blocks of one reply, tool calls included. A reply with more fails with
/// [`ErrorKind::Other`] and keeps this many.
pub const MAX_REPLY_BLOCKS: usize = 4_096;

/// Maximum number of tool calls of one reply. A reply with more fails with [`ErrorKind::Other`] and keeps this many;
/// no call of it runs.
pub const MAX_REPLY_CALLS: usize = 1_024;

/// A limit that a reply exceeded. It converts to a [`ProviderError`] of the kind [`ErrorKind::Other`], which is not
/// retried and carries advice for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyLimit {
    /// The reply is longer than [`MAX_REPLY_BYTES`].
    Bytes,
    /// The reply has more blocks than [`MAX_REPLY_BLOCKS`].
    Blocks,
    /// The reply has more tool calls than [`MAX_REPLY_CALLS`].
    Calls,
    /// A value of the reply is nested deeper than [`MAX_VALUE_DEPTH`](crate::MAX_VALUE_DEPTH).
    Depth,
}

impl ReplyLimit {
    /// Returns the error of a reply of `model` that exceeded the limit.
    #[must_use]
    pub fn error_of(self, model: &ModelConfig) -> ProviderError {
        ProviderError::new(ErrorKind::Other, self.context().with_target(&model.provider, &model.id))
    }

    fn context(self) -> ErrorContext {
        let (message, advice) = match self {
            Self::Bytes => (
                format!("the reply is longer than {} MiB", MAX_REPLY_BYTES >> 20),
                "request less at once, or check the server behind the address",
            ),
            Self::Blocks => (
                format!("the reply has more than {MAX_REPLY_BLOCKS} blocks"),
                "request less at once, or check the server behind the address",
            ),
            Self::Calls => (
                format!("the reply has more than {MAX_REPLY_CALLS} tool calls"),
                "instruct the model to call fewer tools at once, or check the server behind the address",
            ),
            Self::Depth => (
                format!("a value of the reply is nested deeper than {MAX_VALUE_DEPTH} levels"),
                "check the provider, or the server behind the address",
            ),
        };
        ErrorContext::new(message).with_advice(advice)
    }
}

impl From<ReplyLimit> for ProviderError {
    fn from(limit: ReplyLimit) -> Self {
        Self::new(ErrorKind::Other, limit.context())
    }
}
