//! Where a session came from that goes on from a place of another one.

use agent_core::{LoopId, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::files::FileState;

/// Where a session was forked from (B-183). The other session knows nothing of it: it is not changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForkRef {
    /// The session.
    pub session_id: SessionId,
    /// Its loop.
    pub loop_id: LoopId,
    /// How many messages of that loop were taken along.
    #[serde(default)]
    pub messages: usize,
    /// When.
    #[serde(default)]
    pub timestamp: Timestamp,
    /// What was known of the files at that place.
    #[serde(default, skip_serializing_if = "FileState::is_empty")]
    pub files: FileState,
}
