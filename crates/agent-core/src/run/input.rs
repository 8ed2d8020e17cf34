//! What a shell tells a run.

mod tool;

use serde::{Deserialize, Serialize};

use super::queues::{QueueKind, QueueMode, Queued};
use crate::budget::{BudgetRefusal, BudgetSnapshot, Spending};
use crate::event::Answer;
use crate::history::Splice;
use crate::identity::{QuestionId, ToolCallId};
use crate::message::{AssistantMessage, Content, StopReason, Usage};
use crate::prefix::CacheBreak;
use crate::provider::{ErrorKind, ProviderError, ReplyLog};
pub use tool::{ToolChange, ToolOutcome, ToolQuestion, ToolVerdict};

/// Something that happened. Each is one entry of the journal, together with its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Input {
    /// A message was queued. Legal until the run ends.
    Queue {
        /// The message and where it waits.
        queued: Queued,
    },
    /// A queue was emptied. Legal until the run ends.
    ClearQueue {
        /// Which.
        kind: QueueKind,
    },
    /// A queue is to be drained otherwise. Legal until the run ends.
    SetQueueMode {
        /// Which.
        kind: QueueKind,
        /// How.
        mode: QueueMode,
    },
    /// The caller aborted. Legal until the run ends; a second one ends what the first one still waits for.
    Abort {
        /// What had arrived of a reply.
        partial: Option<Box<PartialReply>>,
        /// What is known, where it was not the caller's wish: the run was cut off.
        interrupted: Option<String>,
    },
    /// The verdict of a gate before the loop or a turn.
    GateDecided {
        /// The verdict.
        verdict: GateVerdict,
    },
    /// What the input filters say of the prompts.
    Filtered {
        /// What they say.
        verdict: InputVerdict,
    },
    /// What the budget says of the next call of the model. Asked for where the run has one.
    BudgetDecided {
        /// The verdict.
        verdict: BudgetVerdict,
    },
    /// A reply began to arrive.
    ReplyStarted,
    /// The request of the call that is being made did not begin as the last one did.
    CacheBroke {
        /// Where and why.
        found: Box<CacheBreak>,
    },
    /// A reply is complete.
    ModelReplied {
        /// The reply.
        reply: Reply,
    },
    /// There is no complete reply.
    ModelFailed {
        /// Why.
        failure: Failure,
        /// What had arrived.
        partial: Option<Box<PartialReply>>,
    },
    /// The wait is over.
    Slept,
    /// It was decided what becomes of a call.
    ToolBegan {
        /// The call.
        id: ToolCallId,
        /// What becomes of it.
        verdict: ToolVerdict,
    },
    /// A call that ran has ended.
    ToolEnded {
        /// The call.
        id: ToolCallId,
        /// How.
        outcome: Box<ToolOutcome>,
    },
    /// What a hook changes in the result of a call that ran. Asked for where [`Gates::after_tool`](super::Gates) is set.
    ToolReviewed {
        /// The call.
        id: ToolCallId,
        /// What changes.
        change: Box<ToolChange>,
    },
    /// The history is to be shortened like this.
    Compacted {
        /// What is replaced by what.
        splices: Vec<Splice>,
        /// Tokens that the strategy itself used.
        usage: Usage,
        /// Why the caller's strategy was not used, where it failed.
        fallback: Option<String>,
    },
    /// The history cannot be shortened enough.
    CompactionFailed {
        /// Why.
        message: String,
    },
    /// A question was answered.
    Answer {
        /// Which.
        question_id: QuestionId,
        /// How.
        answer: Answer,
    },
}

impl Input {
    /// Its name in messages and journals.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Queue { .. } => "queue",
            Self::ClearQueue { .. } => "clear_queue",
            Self::SetQueueMode { .. } => "set_queue_mode",
            Self::Abort { .. } => "abort",
            Self::GateDecided { .. } => "gate_decided",
            Self::Filtered { .. } => "filtered",
            Self::BudgetDecided { .. } => "budget_decided",
            Self::ReplyStarted => "reply_started",
            Self::CacheBroke { .. } => "cache_broke",
            Self::ModelReplied { .. } => "model_replied",
            Self::ModelFailed { .. } => "model_failed",
            Self::Slept => "slept",
            Self::ToolBegan { .. } => "tool_began",
            Self::ToolEnded { .. } => "tool_ended",
            Self::ToolReviewed { .. } => "tool_reviewed",
            Self::Compacted { .. } => "compacted",
            Self::CompactionFailed { .. } => "compaction_failed",
            Self::Answer { .. } => "answer",
        }
    }

    /// The caller's abort, with what had arrived of a reply.
    #[must_use]
    pub fn abort(partial: Option<PartialReply>) -> Self {
        Self::Abort { partial: partial.map(Box::new), interrupted: None }
    }
}

/// The verdict of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateVerdict {
    /// Continue.
    #[serde(rename = "go")]
    Allow,
    /// End here.
    Deny(String),
    /// Ask somebody first.
    Ask(String),
}

/// What the budget says of a call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetVerdict {
    /// The call may be made.
    #[serde(rename = "granted")]
    Allow {
        /// What is set aside for it.
        amounts: Spending,
        /// What the prompt is estimated at.
        prompt_tokens: u64,
        /// The most tokens of the answer, where the budget does not allow what is configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_output: Option<u32>,
        /// The accounts, before the call.
        known: BudgetSnapshot,
    },
    /// A limit does not allow it.
    #[serde(rename = "refused")]
    Deny {
        /// Which, with the figures.
        refusal: Box<BudgetRefusal>,
        /// The accounts.
        known: BudgetSnapshot,
    },
    /// The budget cannot be asked, or cannot count the call.
    Failed {
        /// Why, and what to do.
        message: String,
    },
}

/// What the input filters say (REQ-068..070).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputVerdict {
    /// Go on; these warnings are shown to the model.
    #[serde(rename = "pass")]
    Allow {
        /// The warnings, in the order of the filters.
        warnings: Vec<String>,
    },
    /// Refuse the prompt.
    #[serde(rename = "reject")]
    Deny {
        /// Why.
        reason: String,
    },
}

/// A complete reply: it ended `Stop`, `Length` or `ToolUse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    message: Box<AssistantMessage>,
    tokens: Option<u64>,
}

/// A message that is not a complete reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a reply that ended {0:?} is not complete; report it as ModelFailed or Abort")]
pub struct ReplyError(StopReason);

impl Reply {
    /// A complete reply.
    ///
    /// # Errors
    /// When it ended `Error` or `Aborted`.
    pub fn new(message: AssistantMessage) -> Result<Self, ReplyError> {
        if message.is_failed() {
            return Err(ReplyError(message.stop_reason));
        }
        Ok(Self { message: Box::new(message), tokens: None })
    }

    /// The same reply with its token count, where the default estimate is not wanted.
    #[must_use]
    pub fn counted(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &AssistantMessage {
        &self.message
    }

    pub(super) fn into_parts(self) -> (AssistantMessage, Option<u64>) {
        (*self.message, self.tokens)
    }
}

/// What had arrived of a reply that broke off.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartialReply {
    /// The blocks; calls only whose end had arrived.
    pub content: Vec<Content>,
    /// Tokens, as far as the provider said.
    pub usage: Usage,
    /// The provider's id of the response.
    pub response_id: Option<String>,
}

impl PartialReply {
    /// What had arrived.
    #[must_use]
    pub fn new(content: Vec<Content>, usage: Usage, response_id: Option<String>) -> Self {
        Self { content, usage, response_id }
    }

    /// What a log holds.
    pub(crate) fn of(log: &ReplyLog) -> Self {
        Self::new(log.partial_content(), log.usage(), log.response_id())
    }
}

/// Why there is no complete reply, as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// What it means.
    pub kind: ErrorKind,
    /// What happened, for people.
    pub message: String,
    /// The wait that the provider asked for, in milliseconds.
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure of this kind.
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
