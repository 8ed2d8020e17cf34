//! The events of a group of parallel loops.

use serde::{Deserialize, Serialize};

use crate::identity::{AgentId, LoopId, SessionId, Timestamp};
use crate::message::Usage;

/// The data of [`AgentEvent::ParallelLoopStart`](super::AgentEvent::ParallelLoopStart).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelLoopStart {
    /// The id of the group, unique among the loops of the session.
    pub group_id: LoopId,
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The loop that the branches continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// The branches, in the order of their configurations.
    pub loop_ids: Vec<LoopId>,
    /// The time of the event.
    pub timestamp: Timestamp,
}

/// The data of [`AgentEvent::ParallelLoopEnd`](super::AgentEvent::ParallelLoopEnd).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelLoopEnd {
    /// The id of the group.
    pub group_id: LoopId,
    /// The id of the session.
    pub session_id: SessionId,
    /// The selected branch; `None` if none was selected, for the reason in `reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_loop_id: Option<LoopId>,
    /// The index of the selected branch, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_config_index: Option<usize>,
    /// The tokens of the evaluation, which are not part of any branch's usage.
    #[serde(default)]
    pub evaluation_usage: Usage,
    /// The loop of the judge, if a model judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_loop_id: Option<LoopId>,
    /// The reason for which no branch was selected, or for which a fallback was selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The time of the event.
    pub timestamp: Timestamp,
}

impl ParallelLoopEnd {
    /// Creates the end of a group without a selection.
    pub(crate) fn new(group_id: LoopId, session_id: SessionId, timestamp: Timestamp) -> Self {
        Self {
            group_id,
            session_id,
            selected_loop_id: None,
            selected_config_index: None,
            evaluation_usage: Usage::default(),
            judge_loop_id: None,
            reason: None,
            timestamp,
        }
    }
}
