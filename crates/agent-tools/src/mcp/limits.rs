//! The limits on what a server sends, and the count of the values of a message.

use agent_core::message::has_more_values;
use std::fmt;
use std::io;

use rmcp::model::ErrorCode;
use serde::Serialize;

use super::{
    MAX_INSTRUCTIONS_BYTES, MAX_LIST_BYTES, MAX_MESSAGE_BYTES, MAX_MESSAGE_VALUES, MAX_RESULT_BLOCKS,
    MAX_TOOL_PAGES, MAX_TOOLS,
};

/// A limit on what a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpLimit {
    /// The bytes of one message: [`MAX_MESSAGE_BYTES`].
    MessageBytes,
    /// The JSON values of one message: [`MAX_MESSAGE_VALUES`].
    MessageValues,
    /// The bytes of all pages of a list of tools: [`MAX_LIST_BYTES`].
    ListBytes,
    /// The tools of a list: [`MAX_TOOLS`].
    ListTools,
    /// The pages of a list: [`MAX_TOOL_PAGES`].
    ListPages,
    /// The content blocks of a result: [`MAX_RESULT_BLOCKS`].
    ResultBlocks,
    /// The bytes of the server's instructions: [`MAX_INSTRUCTIONS_BYTES`].
    InstructionsBytes,
}

impl McpLimit {
    /// The limits that a transport checks. They travel through the SDK as the error codes of a replacement response.
    const OF_TRANSPORTS: [(Self, ErrorCode); 2] =
        [(Self::MessageBytes, ErrorCode(i32::MIN + 1)), (Self::MessageValues, ErrorCode(i32::MIN + 2))];

    /// Returns the greatest allowed number.
    #[must_use]
    pub fn value(self) -> usize {
        match self {
            Self::MessageBytes => MAX_MESSAGE_BYTES,
            Self::MessageValues => MAX_MESSAGE_VALUES,
            Self::ListBytes => MAX_LIST_BYTES,
            Self::ListTools => MAX_TOOLS,
            Self::ListPages => MAX_TOOL_PAGES,
            Self::ResultBlocks => MAX_RESULT_BLOCKS,
            Self::InstructionsBytes => MAX_INSTRUCTIONS_BYTES,
        }
    }

    pub(super) fn code(self) -> ErrorCode {
        let found = Self::OF_TRANSPORTS.into_iter().find(|(limit, _)| *limit == self);
        found.map_or(super::pipe::BROKEN_ANSWER, |(_, code)| code)
    }

    pub(super) fn of_code(code: ErrorCode) -> Option<Self> {
        Self::OF_TRANSPORTS.into_iter().find(|(_, known)| *known == code).map(|(limit, _)| limit)
    }
}

impl fmt::Display for McpLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::MessageBytes => "bytes in one message",
            Self::MessageValues => "values in one message",
            Self::ListBytes => "bytes in its list of tools",
            Self::ListTools => "tools",
            Self::ListPages => "pages of tools",
            Self::ResultBlocks => "content blocks in one result",
            Self::InstructionsBytes => "bytes of instructions",
        };
        write!(f, "{} {what}", self.value())
    }
}

/// Returns whether a JSON text has more than [`MAX_MESSAGE_VALUES`] values.
pub(super) fn has_too_many_values(text: &[u8]) -> bool {
    has_more_values(text, MAX_MESSAGE_VALUES)
}

/// Returns the size of a value as JSON text, without writing it.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        // A value that cannot be written cannot be used either.
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests;
