//! The inputs of a run: what the driver reports to it.

mod tool;

use serde::{Deserialize, Deserializer, Serialize};

use super::child::SuspendedChild;
use super::queues::{QueueKind, QueueMode, Queued};
use crate::budget::{BudgetRefusal, BudgetSnapshot, Spending};
use crate::event::Answer;
use crate::history::Splice;
use crate::identity::{QuestionId, Timestamp, ToolCallId};
use crate::message::{AssistantMessage, Content, StopReason, Usage};
use crate::prefix::CacheBreak;
use crate::provider::{ErrorKind, ProviderError, ReplyLog};
pub use tool::{ToolChange, ToolOutcome, ToolQuestion, ToolVerdict};

/// A result or a request that the driver reports to the run. Each input is journaled together with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Input {
    /// A message was queued. Accepted until the run ends.
    Queue {
        /// The message and its queue.
        queued: Queued,
    },
    /// A queue was cleared. Accepted until the run ends.
    ClearQueue {
        /// The queue to clear.
        kind: QueueKind,
    },
    /// The mode of a queue was changed. Accepted until the run ends.
    SetQueueMode {
        /// The queue to change.
        kind: QueueKind,
        /// The new mode of the queue.
        mode: QueueMode,
    },
    /// The run was aborted. Accepted until the run ends; a second abort closes the calls that the first one still
    /// waits for.
    Abort {
        /// The part of the reply that had arrived.
        partial: Option<Box<PartialReply>>,
        /// The reason, if the run was interrupted and not aborted by the caller.
        interrupted: Option<String>,
    },
    /// The run reached [`ExecutionLimits::max_duration`](crate::ExecutionLimits::max_duration) during a step. Ends the
    /// step like an abort, and the run with [`Ended::Limit`](crate::event::Ended). Accepted until the run ends.
    TimeUp {
        /// The part of the reply that had arrived.
        partial: Option<Box<PartialReply>>,
    },
    /// The verdict of a gate before the loop or a turn.
    GateDecided {
        /// The verdict of the hooks.
        verdict: GateVerdict,
    },
    /// The verdict of the input filters on the prompts.
    Filtered {
        /// The verdict of the filters.
        verdict: InputVerdict,
    },
    /// The verdict of the budget on the next model call. Requested only if the run has a budget.
    BudgetDecided {
        /// The verdict of the budget.
        verdict: BudgetVerdict,
    },
    /// A reply began to arrive.
    #[serde(deserialize_with = "without_fields")]
    ReplyStarted,
    /// The request of the current model call differs from the last one in its prefix.
    CacheBroke {
        /// The position and the cause of the break.
        found: Box<CacheBreak>,
    },
    /// The model returned a complete reply.
    ModelReplied {
        /// The reply with its token count.
        reply: Reply,
    },
    /// The model call failed without a complete reply.
    ModelFailed {
        /// The reason of the failure.
        failure: Failure,
        /// The part of the reply that had arrived.
        partial: Option<Box<PartialReply>>,
    },
    /// The delay before the next attempt is over.
    #[serde(deserialize_with = "without_fields")]
    Slept,
    /// All messages that were queued until the end of the turn was delivered have been applied.
    #[serde(deserialize_with = "without_fields")]
    QueuesRead,
    /// The decision about a tool call: it starts, waits for an answer, or is denied.
    ToolBegan {
        /// The id of the call.
        id: ToolCallId,
        /// The decision about the call.
        verdict: ToolVerdict,
    },
    /// A tool call that ran has ended.
    ToolEnded {
        /// The id of the call.
        id: ToolCallId,
        /// The outcome of the call.
        outcome: Box<ToolOutcome>,
    },
    /// The child loop to which a running call is delegated waits for answers, and the call waits with it.
    ChildSuspended {
        /// The id of the call.
        id: ToolCallId,
        /// The questions of the child, and its run if no journal has it.
        child: Box<SuspendedChild>,
    },
    /// The changes of a hook to the result of a call that ran. Requested only if [`Gates::after_tool`](super::Gates)
    /// is set.
    ToolReviewed {
        /// The id of the call.
        id: ToolCallId,
        /// The changes to the result.
        change: Box<ToolChange>,
    },
    /// The history is replaced by a shorter one.
    Compacted {
        /// The ranges of the history that are replaced.
        splices: Vec<Splice>,
        /// The tokens that the strategy itself used.
        usage: Usage,
        /// The error of the caller's strategy, if the default one replaced it.
        fallback: Option<String>,
    },
    /// The history cannot be shortened enough.
    CompactionFailed {
        /// The reason of the failure.
        message: String,
    },
    /// Time passed that is not the run's: the machine was suspended, the clock was set forward, the process was stopped, or the
    /// run was interrupted and continues in another process. It does not count for
    /// [`ExecutionLimits::max_duration`](crate::ExecutionLimits::max_duration). Refused while the run waits for an answer,
    /// because none of that time counts.
    Idle {
        /// The milliseconds since the input before that do not count.
        ms: u64,
    },
    /// The driver leaves the run, which waits for answers. The run emits `RunSuspended` and is unchanged.
    #[serde(deserialize_with = "without_fields")]
    Suspended,
    /// A question was answered.
    Answer {
        /// The id of the question.
        question_id: QuestionId,
        /// The answer to the question.
        answer: Answer,
    },
}

/// Reads an input without fields. Serde would ignore the fields of one.
fn without_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

impl Input {
    /// Returns the name of the input in messages and journals.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Queue { .. } => "queue",
            Self::ClearQueue { .. } => "clear_queue",
            Self::SetQueueMode { .. } => "set_queue_mode",
            Self::Abort { .. } => "abort",
            Self::TimeUp { .. } => "time_up",
            Self::GateDecided { .. } => "gate_decided",
            Self::Filtered { .. } => "filtered",
            Self::BudgetDecided { .. } => "budget_decided",
            Self::ReplyStarted => "reply_started",
            Self::CacheBroke { .. } => "cache_broke",
            Self::ModelReplied { .. } => "model_replied",
            Self::ModelFailed { .. } => "model_failed",
            Self::Slept => "slept",
            Self::QueuesRead => "queues_read",
            Self::ToolBegan { .. } => "tool_began",
            Self::ToolEnded { .. } => "tool_ended",
            Self::ChildSuspended { .. } => "child_suspended",
            Self::ToolReviewed { .. } => "tool_reviewed",
            Self::Compacted { .. } => "compacted",
            Self::CompactionFailed { .. } => "compaction_failed",
            Self::Idle { .. } => "idle",
            Self::Suspended => "suspended",
            Self::Answer { .. } => "answer",
        }
    }

    /// Creates the caller's abort, with the part of the reply that had arrived.
    #[must_use]
    pub fn abort(partial: Option<PartialReply>) -> Self {
        Self::Abort { partial: partial.map(Box::new), interrupted: None }
    }
}

/// An input that was applied to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppliedInput {
    /// The time at which the input was applied.
    pub now: Timestamp,
    /// The input that was applied.
    pub input: Input,
}

/// The verdict of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateVerdict {
    /// The loop or the turn starts.
    #[serde(rename = "go")]
    Allow,
    /// The run ends for this reason.
    Deny(String),
    /// The user must answer this question first.
    Ask(String),
}

/// The verdict of the budget on a model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetVerdict {
    /// The call may be made.
    #[serde(rename = "granted")]
    Allow {
        /// The amounts that are reserved for the call.
        amounts: Spending,
        /// The estimated tokens of the prompt.
        prompt_tokens: u64,
        /// The maximum tokens of the answer, if the budget allows less than is configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_output: Option<u32>,
        /// The accounts before the call.
        known: BudgetSnapshot,
    },
    /// A limit does not allow the call.
    #[serde(rename = "refused")]
    Deny {
        /// The limit, with its figures.
        refusal: Box<BudgetRefusal>,
        /// The accounts at the time of the refusal.
        known: BudgetSnapshot,
    },
    /// The budget is missing, or cannot count the cost of the call.
    Failed {
        /// The reason, and what to do about it.
        message: String,
    },
}

/// The verdict of the input filters on the prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputVerdict {
    /// The prompts enter; the warnings are shown to the model.
    #[serde(rename = "pass")]
    Allow {
        /// The warnings, in the order of the filters.
        warnings: Vec<String>,
    },
    /// The prompts are rejected.
    #[serde(rename = "reject")]
    Deny {
        /// The reason of the rejection.
        reason: String,
    },
}

/// A complete reply: its stop reason is `Stop`, `Length` or `ToolUse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    message: Box<AssistantMessage>,
    tokens: Option<u64>,
}

/// The error of a message that is not a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a reply that ended {0:?} is not complete; report it as ModelFailed or Abort")]
pub struct ReplyError(StopReason);

impl Reply {
    /// Creates a complete reply.
    ///
    /// # Errors
    /// Returns an error if the stop reason is `Error` or `Aborted`.
    pub fn new(message: AssistantMessage) -> Result<Self, ReplyError> {
        if message.is_failed() {
            return Err(ReplyError(message.stop_reason));
        }
        Ok(Self { message: Box::new(message), tokens: None })
    }

    /// Sets the token count of the reply, which replaces the default estimate.
    #[must_use]
    pub fn counted(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Returns the message of the reply.
    #[must_use]
    pub fn message(&self) -> &AssistantMessage {
        &self.message
    }

    pub(super) fn into_parts(self) -> (AssistantMessage, Option<u64>) {
        (*self.message, self.tokens)
    }
}

/// The part of an interrupted reply that had arrived.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartialReply {
    /// The content blocks. Calls are included only if their end had arrived.
    pub content: Vec<Content>,
    /// The tokens used, as far as the provider reported them.
    pub usage: Usage,
    /// The provider's id of the response.
    pub response_id: Option<String>,
}

impl PartialReply {
    /// Creates a partial reply from its parts.
    #[must_use]
    pub fn new(content: Vec<Content>, usage: Usage, response_id: Option<String>) -> Self {
        Self { content, usage, response_id }
    }

    /// Returns the partial reply that a log contains.
    #[must_use]
    pub fn of(log: &ReplyLog) -> Self {
        Self::new(log.partial_content(), log.usage(), log.response_id())
    }
}

/// The reason for which a model call failed, as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// A description of the failure for the user.
    pub message: String,
    /// The delay that the provider requested, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// Creates a failure of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after_ms: None }
    }
}

impl From<&ProviderError> for Failure {
    fn from(error: &ProviderError) -> Self {
        Self {
            kind: error.kind(),
            message: error.to_string(),
            retry_after_ms: error.retry_after().map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// The error of an input that a run or a group does not expect. It is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the input {input} is not accepted now: {reason}")]
#[non_exhaustive]
pub struct Misplaced {
    /// The name of the input.
    pub input: &'static str,
    /// The reason for which it was rejected.
    pub reason: String,
}
