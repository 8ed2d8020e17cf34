//! How a run begins and how it ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::{BudgetRefusal, Spending};
use crate::history::MessageRef;
use crate::identity::{AgentId, ContinuationKind, GroupMember, LoopId, SessionId, SessionOrigin, Timestamp};
use crate::message::Usage;
use crate::provider::ErrorKind;

/// See [`AgentEvent::AgentStart`](super::AgentEvent::AgentStart) (REQ-192).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentStart {
    /// The agent.
    pub agent_id: AgentId,
    /// The session.
    pub session_id: SessionId,
    /// The loop.
    pub loop_id: LoopId,
    /// The loop that this one continues or was started by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// How it continues; absent for a first loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_kind: Option<ContinuationKind>,
    /// Its place in a group of parallel loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMember>,
    /// Why there is a new session, on the first loop of one that the agent went to from another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_origin: Option<SessionOrigin>,
    /// When.
    pub timestamp: Timestamp,
    /// What it runs with.
    #[serde(default)]
    pub config: Arc<LoopConfigSnapshot>,
    /// What the caller wants to have noted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub metadata: Value,
}

/// What a loop runs with, without secrets (REQ-211).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LoopConfigSnapshot {
    /// The model.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// The caller's name for the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_id: Option<String>,
    /// The model's name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<crate::model::ApiProtocol>,
    /// The model's window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u32>,
    /// The most tokens of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How much it thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<crate::model::ThinkingLevel>,
    /// Randomness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// What the model's tokens cost; absent where no price was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prices: Option<crate::message::CostConfig>,
}

/// See [`AgentEvent::AgentEnd`](super::AgentEvent::AgentEnd).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentEnd {
    /// The loop.
    pub loop_id: LoopId,
    /// The messages of this run: every `MessageEnd` in order, superseded ones aside (B-007).
    pub messages: Vec<MessageRef>,
    /// Tokens of all turns.
    pub usage: Usage,
    /// Tokens that calls used themselves: those of sub-agents. They are not in `usage` (D32).
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub tool_usage: Usage,
    /// What the run spent of its budget, its tools and sub-agents included; absent without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Box<Spending>>,
    /// How it ended.
    pub ended: Ended,
    /// When.
    pub timestamp: Timestamp,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ended {
    /// There was nothing left to do.
    Completed,
    /// `before_loop` refused.
    Vetoed {
        /// Why.
        reason: String,
    },
    /// An input filter refused the prompt.
    InputRejected {
        /// Why.
        reason: String,
    },
    /// `before_turn` refused a turn.
    TurnVetoed {
        /// Why.
        reason: String,
    },
    /// An execution limit was reached.
    Limit {
        /// Which, in the words of REQ-061.
        reason: String,
    },
    /// The budget is used up, and it was not raised.
    Budget {
        /// Which limit, with the figures.
        refusal: Box<BudgetRefusal>,
    },
    /// The caller aborted.
    Aborted,
    /// The model could not be asked, or its answer could not be used.
    Error {
        /// What it means.
        kind: ErrorKind,
        /// What happened.
        message: String,
    },
    /// The run was cut off: its task was dropped, or something in it panicked.
    Interrupted {
        /// What is known of it.
        reason: String,
    },
}
