//! What a group of parallel loops says (REQ-198).

use serde::{Deserialize, Serialize};

use crate::identity::{AgentId, LoopId, SessionId, Timestamp};
use crate::message::Usage;

/// See [`AgentEvent::ParallelLoopStart`](super::AgentEvent::ParallelLoopStart).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelLoopStart {
    /// The group: a name of its own among the loops of the session.
    pub group_id: LoopId,
    /// The session.
    pub session_id: SessionId,
    /// The agent.
    pub agent_id: AgentId,
    /// The loop that the branches go on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// The branches, in the order of their configurations.
    pub loop_ids: Vec<LoopId>,
    /// When.
    pub timestamp: Timestamp,
}

/// See [`AgentEvent::ParallelLoopEnd`](super::AgentEvent::ParallelLoopEnd).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ParallelLoopEnd {
    /// The group.
    pub group_id: LoopId,
    /// The session.
    pub session_id: SessionId,
    /// The branch that was selected; absent where none was, and `reason` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_loop_id: Option<LoopId>,
    /// Its place among the branches, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_config_index: Option<usize>,
    /// Tokens of the evaluation, which are in no branch's usage.
    #[serde(default)]
    pub evaluation_usage: Usage,
    /// The loop of the judge, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_loop_id: Option<LoopId>,
    /// Why none was selected, or why it is not the evaluation's own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}
