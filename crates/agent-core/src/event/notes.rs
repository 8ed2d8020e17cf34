//! The events about retries, routes, budgets and compactions.

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetRefusal, Spending};
use crate::history::Splice;
use crate::identity::{LoopId, StepKey, Timestamp};
use crate::message::Usage;
use crate::provider::ErrorKind;
use crate::route::RouteName;

/// The data of [`AgentEvent::RetryStart`](super::AgentEvent::RetryStart) and
/// [`AgentEvent::RetryEnd`](super::AgentEvent::RetryEnd).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetryNote {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The number of the retry, from 1.
    pub attempt: u32,
    /// The maximum number of retries.
    pub max_attempts: u32,
    /// The delay before the retry, in milliseconds.
    pub delay_ms: u64,
    /// The error: at a start, that of the previous attempt; at an end, that of this one. `None` if the retry
    /// succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The data of [`AgentEvent::RouteChanged`](super::AgentEvent::RouteChanged).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteChange {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The route that failed.
    pub from: RouteName,
    /// The route of the next attempt.
    pub to: RouteName,
    /// The kind of the failure.
    pub kind: ErrorKind,
    /// The message of the failure.
    pub error: String,
}

/// The data of [`AgentEvent::Budget`](super::AgentEvent::Budget).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetEvent {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The key of the model or tool call.
    pub step: StepKey,
    /// What happened in the budget.
    pub note: BudgetNote,
    /// The spending of the run's account after the event, as far as this run knows. The spending of other runs is
    /// included when the next call is reserved.
    pub spent: Spending,
}

/// A change in a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetNote {
    /// The maximum cost of a call was reserved; the call starts now.
    Reserved {
        /// The amounts that were reserved.
        amounts: Spending,
        /// The maximum tokens of the answer, if the budget allows less than is configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_output: Option<u32>,
    },
    /// The call ended, and its actual cost was charged. The rest of the reservation was released.
    Spent {
        /// The amounts that were charged.
        amounts: Spending,
        /// Whether the amounts are an estimate, because the provider reported no usage.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
    },
    /// A limit denied the call. The run ends or asks the user.
    Refused {
        /// The limit, with its figures.
        refusal: Box<BudgetRefusal>,
    },
    /// An answer raised the limit.
    Raised {
        /// The amounts by which the limit was raised.
        by: Spending,
    },
}

/// The data of [`AgentEvent::CompactionEnded`](super::AgentEvent::CompactionEnded).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactionEnded {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The reason of the compaction.
    pub reason: CompactionReason,
    /// The replaced ranges of the history, with the messages that replace them.
    pub splices: Vec<Splice>,
    /// The number of messages before the compaction.
    pub messages_before: usize,
    /// The number of messages after the compaction.
    pub messages_after: usize,
    /// The counted tokens of the context before the compaction.
    pub estimated_tokens_before: u64,
    /// The counted tokens of the context after the compaction.
    pub estimated_tokens_after: u64,
    /// The tokens that the strategy itself used, counted separately.
    #[serde(default)]
    pub usage: Usage,
    /// The error of the caller's strategy, if the default one replaced it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The time of the event.
    pub timestamp: Timestamp,
}

/// The reason of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionReason {
    /// The context exceeds its budget.
    Budget,
    /// The provider reported that the context is too long.
    Overflow,
    /// The provider refused a picture, a document or a recording of the conversation. A sentence replaces it, and nothing else
    /// is changed.
    RefusedFile,
}

/// A warning of a journal: something that will soon end runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum JournalWarning {
    /// The record of the session approaches the size that its store reads, so that the store will refuse the next prompts.
    /// Continue in a new session, or increase the limit of the store.
    #[error(
        "the session has {bytes} of at most {limit} bytes, and its store will soon refuse prompts: continue in a new \
         session, or increase the limit"
    )]
    NearlyFull {
        /// The size of the record.
        bytes: u64,
        /// The maximum size that the store reads.
        limit: u64,
    },
}

/// The data of [`AgentEvent::TransportFallback`](super::AgentEvent::TransportFallback).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TransportFallback {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The key of the model call.
    pub step: StepKey,
    /// The transport that does not work, such as `WebSocket`.
    pub from: String,
    /// The transport that the provider uses instead, such as `HTTP`.
    pub to: String,
    /// Why the preferred transport does not work.
    pub reason: String,
}
