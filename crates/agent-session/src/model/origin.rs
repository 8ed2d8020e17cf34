//! Origins of sessions and loops: the place that a session was forked from, and the group that a loop is a branch of.

use agent_core::{LoopId, SessionId, Timestamp, Usage};
use serde::{Deserialize, Serialize};

use crate::files::FileState;

/// The place that a session was forked from. The other session does not refer to the fork and is not changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForkRef {
    /// The id of the original session.
    pub session_id: SessionId,
    /// The loop of the place.
    pub loop_id: LoopId,
    /// How many messages of that loop were taken along.
    #[serde(default)]
    pub messages: usize,
    /// The time of the fork.
    #[serde(default)]
    pub timestamp: Timestamp,
    /// What was known of the files at that place.
    #[serde(default, skip_serializing_if = "FileState::is_empty")]
    pub files: FileState,
}

/// What a branch knows of its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelGroupRecord {
    /// The loops of all branches.
    pub all_loop_ids: Vec<LoopId>,
    /// The one that was selected; absent while none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_loop_id: Option<LoopId>,
    /// Its place among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_config_index: Option<usize>,
    /// How many loops the session had when the branch was selected; the conversation continues from it,
    /// unless a later loop continued from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_after_loops: Option<usize>,
    /// Tokens of the judge.
    #[serde(default)]
    pub evaluation_usage: Usage,
    /// The loop of the judge, if the group had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_loop_id: Option<LoopId>,
    /// Why none was selected, or why the judge's word did not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether this branch is the selected one.
    #[serde(default)]
    pub is_selected: bool,
}

impl ParallelGroupRecord {
    /// A group of these branches, of which none is selected.
    #[must_use]
    pub fn of(all_loop_ids: Vec<LoopId>) -> Self {
        Self {
            all_loop_ids,
            selected_loop_id: None,
            selected_config_index: None,
            selected_after_loops: None,
            evaluation_usage: Usage::default(),
            judge_loop_id: None,
            reason: None,
            is_selected: false,
        }
    }
}
