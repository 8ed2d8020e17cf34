//! The start and the end of a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::NewMessages;
use crate::budget::{BudgetRefusal, Spending};
use crate::identity::{
    AgentId, ContinuationKind, GroupMember, LoopId, SessionId, SessionOrigin, Timestamp, ToolCallId, ToolName,
};
use crate::message::Usage;
use crate::provider::ErrorKind;

/// The data of [`AgentEvent::AgentStart`](super::AgentEvent::AgentStart).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentStart {
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The loop that this one continues, or that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// How the loop continues its parent; `None` for a first loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_kind: Option<ContinuationKind>,
    /// The call to which the loop belongs, for the loop of a sub-agent; `None` for other loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<Box<SpawningCall>>,
    /// The membership in a group of parallel loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMember>,
    /// The reason for the new session, on its first loop; `None` on other loops and in an agent's first session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_origin: Option<SessionOrigin>,
    /// The time of the event.
    pub timestamp: Timestamp,
    /// The configuration that the loop started with.
    #[serde(default)]
    pub config: Arc<LoopConfigSnapshot>,
    /// Arbitrary data that the caller attached to the run.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
}

/// The tool call of the parent loop that a child loop works for.
///
/// With several sub-agents at once, it assigns each child loop to its call: the name of the tool is the name of the
/// sub-agent, and the arguments of the call contain the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SpawningCall {
    /// The id of the call in the parent loop.
    pub tool_call_id: ToolCallId,
    /// The name of the tool.
    pub tool_name: ToolName,
}

impl SpawningCall {
    /// Creates the description of a call.
    #[must_use]
    pub fn new(tool_call_id: impl Into<ToolCallId>, tool_name: impl Into<ToolName>) -> Self {
        Self { tool_call_id: tool_call_id.into(), tool_name: tool_name.into() }
    }
}

/// The configuration of a loop, without secrets.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LoopConfigSnapshot {
    /// The id of the model.
    pub model: String,
    /// The name of the provider.
    pub provider: String,
    /// The name that the caller gave the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_id: Option<String>,
    /// The display name of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The wire protocol of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<crate::model::ApiProtocol>,
    /// The context window of the model, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The maximum number of tokens of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How much the model thinks before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<crate::model::ThinkingLevel>,
    /// The sampling temperature of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// The prices of the model's tokens; `None` if no price was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<crate::message::CostConfig>,
}

/// The data of [`AgentEvent::AgentEnd`](super::AgentEvent::AgentEnd).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentEnd {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The messages of this run: those of every `MessageEnd` in order, without superseded ones. Those that a compaction
    /// removed are in memory only if no journal can read them back; see [`NewMessages`].
    #[serde(flatten)]
    pub messages: NewMessages,
    /// The tokens that all turns of the run used.
    pub usage: Usage,
    /// The tokens that tool calls used themselves, such as sub-agents. They are not included in `usage`.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub tool_usage: Usage,
    /// The spending of the run, including its tools and sub-agents; `None` without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<Spending>>,
    /// How the run ended.
    pub ended: Ended,
    /// The time of the event.
    pub timestamp: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ended {
    /// The run completed its work.
    Completed,
    /// The `before_loop` hook denied the run.
    Vetoed {
        /// The reason of the hook.
        reason: String,
    },
    /// An input filter rejected the prompt.
    InputRejected {
        /// The reason of the filter.
        reason: String,
    },
    /// The `before_turn` hook denied a turn.
    TurnVetoed {
        /// The reason of the hook.
        reason: String,
    },
    /// An execution limit was reached.
    Limit {
        /// The limit, as the text of a [`LimitReason`](crate::LimitReason).
        reason: String,
    },
    /// The budget is exhausted and was not raised.
    Budget {
        /// The limit, with its figures.
        refusal: Box<BudgetRefusal>,
    },
    /// The caller aborted the run.
    Aborted,
    /// The model call failed, or its reply could not be used.
    Error {
        /// The kind of the failure.
        kind: ErrorKind,
        /// The message of the failure.
        message: String,
    },
    /// The run was interrupted: its task was dropped, or code in it panicked.
    Interrupted {
        /// The reason of the interruption.
        reason: String,
    },
}

impl Ended {
    /// Returns the name of the end, as in the JSON of the event.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Vetoed { .. } => "vetoed",
            Self::InputRejected { .. } => "input_rejected",
            Self::TurnVetoed { .. } => "turn_vetoed",
            Self::Limit { .. } => "limit",
            Self::Budget { .. } => "budget",
            Self::Aborted => "aborted",
            Self::Error { .. } => "error",
            Self::Interrupted { .. } => "interrupted",
        }
    }
}
