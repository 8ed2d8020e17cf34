//! Points of a session.

use agent_core::LoopId;
use serde::{Deserialize, Serialize};

/// A place in a session: the position after a number of a loop's own messages.
///
/// Every number from 0 to the number of messages is valid. A position between a reply with calls and the last of their
/// results means the position after that result, because a conversation cannot contain a call without its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Point {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The number of [`LoopRecord::messages`](crate::LoopRecord::messages) before the place.
    pub messages: usize,
}

impl Point {
    /// Creates the place after this many messages of a loop.
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
