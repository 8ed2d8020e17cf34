//! Origins of sessions and loops: the place that a session was forked from, and the group that a loop is a branch of.

use std::sync::Arc;

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
    /// The number of that loop's messages that the fork contains.
    #[serde(default)]
    pub messages: usize,
    /// The time of the fork.
    #[serde(default)]
    pub timestamp: Timestamp,
    /// The known states of files at that place.
    #[serde(default, skip_serializing_if = "FileState::is_empty")]
    pub files: FileState,
}

/// The group of a branch: its members and its selection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelGroupRecord {
    /// The loops of all branches. The branches of a group share one list in memory.
    pub all_loop_ids: Arc<[LoopId]>,
    /// The selected branch; absent while none is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_loop_id: Option<LoopId>,
    /// The position of the selected branch in `all_loop_ids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_config_index: Option<usize>,
    /// The number of loops that the session had when the branch was selected. The conversation continues from the branch
    /// unless a later loop continued from another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_after_loops: Option<usize>,
    /// The tokens that the judge used.
    #[serde(default)]
    pub evaluation_usage: Usage,
    /// The loop of the judge, if the group had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_loop_id: Option<LoopId>,
    /// The reason why none was selected, or why the judge's choice was not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time at which the group ended; absent while it is open, and in sessions that an earlier version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Whether this branch is the selected one.
    #[serde(default)]
    pub is_selected: bool,
}

impl ParallelGroupRecord {
    /// Creates a group of these branches without a selection.
    #[must_use]
    pub fn of(all_loop_ids: impl Into<Arc<[LoopId]>>) -> Self {
        Self {
            all_loop_ids: all_loop_ids.into(),
            selected_loop_id: None,
            selected_config_index: None,
            selected_after_loops: None,
            evaluation_usage: Usage::default(),
            judge_loop_id: None,
            reason: None,
            ended_at: None,
            is_selected: false,
        }
    }
}
