//! A place in a session.

use agent_core::LoopId;
use serde::{Deserialize, Serialize};

/// A place in a session: after so many of a loop's own messages.
///
/// Every number from 0 to the loop's messages is a place. Where it falls between a reply with calls and the last of their
/// results, the place is after that last result: a call without its result cannot be in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Point {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// How many of [`LoopRecord::messages`](crate::LoopRecord::messages) are before it.
    pub messages: usize,
}

impl Point {
    /// The place after so many of this loop's messages.
    #[must_use]
    pub fn new(loop_id: impl Into<LoopId>, messages: usize) -> Self {
        Self { loop_id: loop_id.into(), messages }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message {} of loop {}", self.messages, self.loop_id)
    }
}
