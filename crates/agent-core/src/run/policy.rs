//! The policy of a loop: how it executes tools, queues, retries and stops.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::queues::{QueueMode, SteeringPolicy};
use crate::context::ContextConfig;
use crate::identity::TurnTrigger;
use crate::limits::ExecutionLimits;
use crate::retry::RetryConfig;
use crate::tool::{DeferTools, ToolExecutionStrategy};

/// How long an aborted tool call may take to end before the run continues without it: 500 ms.
pub const GRACE: Duration = Duration::from_millis(500);

/// The default maximum number of requests that continue one turn.
pub const MAX_CONTINUATIONS: u32 = 16;

/// The default number of equal calls with equal results in a row that end a run.
pub const MAX_REPEATS: u32 = 20;

/// How a loop behaves: tool execution, queues, limits, retries and context. Plain data without services or hooks.
///
/// An [`AgentLoopConfig`](crate::AgentLoopConfig) holds the policy, and the [`RunSetup`](super::RunSetup) of each run
/// shares it. A run keeps the policy with which it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LoopPolicy {
    /// Whether the tool calls of one reply run in parallel, in batches or one after the other. Default: in parallel.
    #[serde(rename = "strategy")]
    pub tool_execution: ToolExecutionStrategy,
    /// The maximum number of calls that run at the same time within a batch. Default: no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrent_tools: Option<usize>,
    /// The maximum duration of a tool call whose tool sets none itself. Default: no maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_timeout: Option<Duration>,
    /// How long an aborted tool call may take to end. Default: [`GRACE`].
    #[serde(skip_serializing_if = "is_grace")]
    pub grace: Duration,
    /// Which of the tools that are marked as deferred are deferred. Default: all.
    #[serde(skip_serializing_if = "DeferTools::is_default")]
    pub defer_tools: DeferTools,
    /// What a steering message does to the calls of the open reply that have not started.
    pub steering_policy: SteeringPolicy,
    /// How many steering messages enter the conversation at a time.
    pub steering_mode: QueueMode,
    /// How many follow-up messages enter the conversation at a time.
    pub follow_up_mode: QueueMode,
    /// Limits on turns, tokens and time; `None` for no limits.
    pub limits: Option<ExecutionLimits>,
    /// The maximum number of further requests in a turn that continue a reply which the vendor paused
    /// ([`StopReason::Paused`](crate::StopReason::Paused)). A turn that is paused once more ends the run at this limit.
    /// Default: [`MAX_CONTINUATIONS`].
    #[serde(skip_serializing_if = "is_max_continuations")]
    pub max_continuations: u32,
    /// How often in a row the model may make the same calls with the same results. At the half of it the model gets a note in a
    /// result, and at this number the run ends. A call that waits for something is no repetition when its result differs.
    /// Without a maximum number of turns, it does not apply. Default: [`MAX_REPEATS`]; 0 for no limit.
    #[serde(skip_serializing_if = "is_max_repeats")]
    pub max_repeats: u32,
    /// How failed model calls are retried.
    pub retry: RetryConfig,
    /// The size of the context and how it is compacted; `None` switches compaction off.
    pub context: Option<ContextConfig>,
    /// The middle part of the loop's id. Default: derived from provider and model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_id: Option<String>,
    /// What triggers the first turn of a new loop. Default: the user.
    pub first_turn_trigger: TurnTrigger,
    /// Data of the caller, repeated in [`AgentStart`](crate::AgentStart). Default: `null`.
    pub metadata: Value,
    /// Whether each request is compared with the previous one to report broken prompt caches. Default: `true`.
    #[serde(skip_serializing_if = "is_yes")]
    pub watch_cache: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_max_continuations(value: &u32) -> bool {
    *value == MAX_CONTINUATIONS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_max_repeats(value: &u32) -> bool {
    *value == MAX_REPEATS
}

fn is_grace(value: &Duration) -> bool {
    *value == GRACE
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Default for LoopPolicy {
    fn default() -> Self {
        Self {
            tool_execution: ToolExecutionStrategy::default(),
            max_concurrent_tools: None,
            tool_timeout: None,
            grace: GRACE,
            defer_tools: DeferTools::default(),
            steering_policy: SteeringPolicy::default(),
            steering_mode: QueueMode::default(),
            follow_up_mode: QueueMode::default(),
            limits: Some(ExecutionLimits::default()),
            max_continuations: MAX_CONTINUATIONS,
            max_repeats: MAX_REPEATS,
            retry: RetryConfig::default(),
            context: Some(ContextConfig::default()),
            config_id: None,
            first_turn_trigger: TurnTrigger::User,
            metadata: Value::Null,
            watch_cache: true,
        }
    }
}
