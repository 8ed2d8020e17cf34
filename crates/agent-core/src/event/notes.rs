//! What is noted on the way: retries, routes, budgets, compactions.

use serde::{Deserialize, Serialize};

use crate::budget::{BudgetRefusal, Spending};
use crate::history::Splice;
use crate::identity::{LoopId, StepKey, Timestamp};
use crate::message::Usage;
use crate::provider::ErrorKind;
use crate::route::RouteName;

/// See [`AgentEvent::RetryStart`](super::AgentEvent::RetryStart) and [`AgentEvent::RetryEnd`](super::AgentEvent::RetryEnd).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RetryNote {
    /// The loop.
    pub loop_id: LoopId,
    /// The retry, from 1.
    pub attempt: u32,
    /// Of how many.
    pub max_attempts: u32,
    /// The wait before it, in milliseconds.
    pub delay_ms: u64,
    /// What failed: for a start the attempt before, for an end this one; absent when it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// See [`AgentEvent::RouteChanged`](super::AgentEvent::RouteChanged).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RouteChange {
    /// The loop.
    pub loop_id: LoopId,
    /// Who failed.
    pub from: RouteName,
    /// Who is asked now.
    pub to: RouteName,
    /// How it failed.
    pub kind: ErrorKind,
    /// What it failed with.
    pub error: String,
}

/// See [`AgentEvent::Budget`](super::AgentEvent::Budget).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetEvent {
    /// The loop.
    pub loop_id: LoopId,
    /// The call of a model or of a tool that it is about.
    pub step: StepKey,
    /// What happened.
    pub note: BudgetNote,
    /// What is spent of the run's account after it, by everybody, as far as this run knows: what others spend meanwhile is
    /// known when the next call is reserved.
    pub spent: Spending,
}

/// What happened in a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetNote {
    /// This much was set aside for the call, which is made now.
    Reserved {
        /// How much.
        amounts: Spending,
        /// The most tokens that its answer may have, where the budget does not allow what was configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_output: Option<u32>,
    },
    /// The call has ended, well or not, and this is what it cost; the rest came back.
    Spent {
        /// How much.
        amounts: Spending,
        /// Whether it is an estimate, because the provider did not say.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
    },
    /// A limit does not allow the call. The run ends, or asks.
    Refused {
        /// Which, with the figures.
        refusal: Box<BudgetRefusal>,
    },
    /// An answer raised the limit.
    Raised {
        /// By how much.
        by: Spending,
    },
}

/// See [`AgentEvent::CompactionEnded`](super::AgentEvent::CompactionEnded).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompactionEnded {
    /// The loop.
    pub loop_id: LoopId,
    /// Why.
    pub reason: CompactionReason,
    /// What was replaced by what.
    pub splices: Vec<Splice>,
    /// Messages before.
    pub messages_before: usize,
    /// Messages after.
    pub messages_after: usize,
    /// Tokens before, as counted.
    pub estimated_tokens_before: u64,
    /// Tokens after, as counted.
    pub estimated_tokens_after: u64,
    /// Tokens that the strategy itself used; a bucket of its own.
    #[serde(default)]
    pub usage: Usage,
    /// Why the caller's strategy was not used, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}

/// Why a history is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionReason {
    /// It is longer than its budget.
    Budget,
    /// The provider said that it is too long.
    Overflow,
}
