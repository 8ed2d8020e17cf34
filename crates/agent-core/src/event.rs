//! What a run says: the typed events that subscribers see and that the log keeps.
//!
//! Every event but the live ones ([`is_live`](AgentEvent::is_live)) comes out of the step function and is enough,
//! together with the others, to fold messages, history and the loop tree again. Live events go to subscribers only.
//!
//! ```
//! use agent_core::{AgentEvent, LoopId};
//! let event = AgentEvent::InputRejected { loop_id: LoopId::from("s.m.1"), reason: "no".into() };
//! assert_eq!(
//!     serde_json::to_string(&event)?,
//!     r#"{"type":"InputRejected","loop_id":"s.m.1","reason":"no"}"#
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

mod group;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use group::{ParallelLoopEnd, ParallelLoopStart};

use crate::budget::{BudgetRefusal, Spending};
use crate::history::{MessageRef, Splice};
use crate::identity::{
    AgentId, ContinuationKind, GroupMember, LoopId, QuestionId, SessionId, StepKey, Timestamp, ToolCallId,
    ToolName, TurnTrigger,
};
use crate::message::{ToolArguments, Usage};
use crate::prefix::CacheBreak;
use crate::provider::{ErrorKind, MessageSnapshot};
use crate::route::RouteName;
use crate::tool::ToolResult;

/// An event of a run. Which of them are there and in which order is written at each (REQ-007, REQ-185, REQ-210).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum AgentEvent {
    /// The run began. Absent only when `before_loop` vetoed it.
    AgentStart(Box<AgentStart>),
    /// An input filter refused the prompt; `AgentEnd` follows.
    InputRejected {
        /// The loop.
        loop_id: LoopId,
        /// Why.
        reason: String,
    },
    /// A turn began: one call of the model, with its retries, and the tools it asks for.
    TurnStart {
        /// The loop.
        loop_id: LoopId,
        /// Its number in the loop, from 0.
        turn_index: u32,
        /// When.
        timestamp: Timestamp,
        /// What opened it.
        triggered_by: TurnTrigger,
    },
    /// A message begins. A reply begins empty; every other message is whole.
    MessageStart {
        /// The loop.
        loop_id: LoopId,
        /// The message.
        message: MessageRef,
    },
    /// A piece of a reply arrived. Live.
    MessageUpdate {
        /// The loop.
        loop_id: LoopId,
        /// The model call.
        step: StepKey,
        /// Which attempt of the turn, from 0. A reader drops what it has of an earlier one.
        attempt: u32,
        /// The reply so far; not serialised.
        #[serde(skip)]
        message: MessageSnapshot,
        /// The block of the reply.
        content_index: u32,
        /// What arrived.
        delta: StreamDelta,
    },
    /// A message is complete and, unless superseded, in the history (a reply with calls: with its results).
    MessageEnd {
        /// The loop.
        loop_id: LoopId,
        /// The message.
        message: MessageRef,
        /// Its tokens, as they were counted when it entered.
        #[serde(default)]
        tokens: u64,
        /// Whether this was the reply of an attempt that is tried again: it enters no history (D9).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        superseded: bool,
    },
    /// A tool call begins. Also sent for calls that are refused, skipped or aborted, so that every call has both.
    ToolExecutionStart {
        /// The loop.
        loop_id: LoopId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: ToolName,
        /// The arguments as the model sent them.
        #[serde(flatten)]
        args: ToolArguments,
    },
    /// A tool shows what it has so far. Live.
    ToolExecutionUpdate {
        /// The loop.
        loop_id: LoopId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: ToolName,
        /// What it has.
        partial_result: Box<ToolResult>,
    },
    /// A tool says how far it is. Live.
    ProgressMessage {
        /// The loop.
        loop_id: LoopId,
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: ToolName,
        /// How far.
        text: String,
    },
    /// A tool call ended, with the tool's own result; what `after_tool_execution` changes shows in the message.
    ToolExecutionEnd(Box<ToolExecutionEnd>),
    /// A call waits for an answer.
    QuestionAsked {
        /// The loop.
        loop_id: LoopId,
        /// The question.
        question: Question,
    },
    /// A question was answered.
    QuestionAnswered {
        /// The loop.
        loop_id: LoopId,
        /// Which.
        question_id: QuestionId,
        /// How.
        answer: Answer,
    },
    /// Nothing goes on without an answer: the stream ends here, the run does not.
    RunSuspended {
        /// The loop.
        loop_id: LoopId,
        /// What it waits for.
        questions: Vec<Question>,
    },
    /// An attempt failed and is tried again after a wait.
    RetryStart(Box<RetryNote>),
    /// What became of an announced attempt.
    RetryEnd(Box<RetryNote>),
    /// A model failed and another one takes the next attempt.
    RouteChanged(Box<RouteChange>),
    /// Something was reserved, spent, refused or raised in the run's budget. Only runs with a budget say it.
    Budget(Box<BudgetEvent>),
    /// A request does not begin as the last one did, so that the provider's cache is of no use to a part of it. Said when its
    /// reply has ended, with what the provider reports.
    CacheBroken(Box<CacheBreak>),
    /// The history is too long and is being shortened.
    CompactionStarted {
        /// The loop.
        loop_id: LoopId,
        /// Why.
        reason: CompactionReason,
        /// Tokens, as counted.
        estimated_tokens: u64,
        /// Messages.
        message_count: usize,
        /// When.
        timestamp: Timestamp,
    },
    /// The history was shortened: the splices give the new one from the old.
    CompactionEnded(Box<CompactionEnded>),
    /// A turn ended. There is one for each `TurnStart`, on every path.
    TurnEnd {
        /// The loop.
        loop_id: LoopId,
        /// The reply; absent when the run was cut off before there was one.
        message: Option<MessageRef>,
        /// Tokens of this turn.
        usage: Usage,
        /// When.
        timestamp: Timestamp,
        /// The results, in the order of the calls.
        tool_results: Vec<MessageRef>,
    },
    /// The run ended. There is exactly one, and nothing of the loop follows it (D3).
    AgentEnd(Box<AgentEnd>),
    /// Branches were announced: each will have its own events, told apart by their loop, and its own end (REQ-198).
    ParallelLoopStart(Box<ParallelLoopStart>),
    /// The group ended. There is one for each start, on every path, after the ends of all its loops.
    ParallelLoopEnd(Box<ParallelLoopEnd>),
}

/// See [`AgentEvent::AgentStart`] (REQ-192).
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

/// See [`AgentEvent::ToolExecutionEnd`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolExecutionEnd {
    /// The loop.
    pub loop_id: LoopId,
    /// The call.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: ToolName,
    /// The tool's own result.
    pub result: ToolResult,
    /// Whether it failed.
    pub is_error: bool,
    /// How long the tool ran, in milliseconds; absent when it did not run (B-107).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The loop of a sub-agent (REQ-194).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
}

/// See [`AgentEvent::RetryStart`] and [`AgentEvent::RetryEnd`].
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

/// See [`AgentEvent::RouteChanged`].
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

/// See [`AgentEvent::Budget`].
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

/// See [`AgentEvent::CompactionEnded`].
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

/// See [`AgentEvent::AgentEnd`].
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

/// What arrived of a reply (REQ-008).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StreamDelta {
    /// Text.
    Text {
        /// What arrived.
        delta: String,
    },
    /// Thinking.
    Thinking {
        /// What arrived.
        delta: String,
    },
    /// Text of a call's arguments.
    ToolCallDelta {
        /// What arrived.
        delta: String,
    },
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

/// Something a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Question {
    /// Its name, for the answer.
    pub id: QuestionId,
    /// What is asked.
    pub text: String,
    /// The call that waits; absent when a gate does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Box<crate::message::ToolCall>>,
    /// The limit that is reached, where a budget asks: [`Answer::Raise`] raises it, `Allow` lets this one call be made
    /// although it is reached, and `Deny` ends the run (a call of a tool: refuses the call).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<BudgetRefusal>>,
}

/// An answer to a [`Question`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Answer {
    /// Go on.
    Allow,
    /// Go on with other arguments. For calls only.
    AllowWith(Value),
    /// Raise the limit of the budget that asks by this much, and go on. For budgets only.
    Raise {
        /// By how much.
        by: Spending,
    },
    /// Do not.
    Deny {
        /// What the model is told.
        reason: String,
    },
}

impl AgentEvent {
    /// The loop that says it; for the events of a group, the group.
    #[must_use]
    pub fn loop_id(&self) -> &LoopId {
        match self {
            Self::AgentStart(e) => &e.loop_id,
            Self::ToolExecutionEnd(e) => &e.loop_id,
            Self::RetryStart(e) | Self::RetryEnd(e) => &e.loop_id,
            Self::RouteChanged(e) => &e.loop_id,
            Self::Budget(e) => &e.loop_id,
            Self::CacheBroken(e) => &e.loop_id,
            Self::CompactionEnded(e) => &e.loop_id,
            Self::AgentEnd(e) => &e.loop_id,
            Self::ParallelLoopStart(e) => &e.group_id,
            Self::ParallelLoopEnd(e) => &e.group_id,
            Self::InputRejected { loop_id, .. }
            | Self::TurnStart { loop_id, .. }
            | Self::MessageStart { loop_id, .. }
            | Self::MessageUpdate { loop_id, .. }
            | Self::MessageEnd { loop_id, .. }
            | Self::ToolExecutionStart { loop_id, .. }
            | Self::ToolExecutionUpdate { loop_id, .. }
            | Self::ProgressMessage { loop_id, .. }
            | Self::QuestionAsked { loop_id, .. }
            | Self::QuestionAnswered { loop_id, .. }
            | Self::RunSuspended { loop_id, .. }
            | Self::CompactionStarted { loop_id, .. }
            | Self::TurnEnd { loop_id, .. } => loop_id,
        }
    }

    /// Whether it goes to subscribers only and is never needed to fold the log.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::MessageUpdate { .. } | Self::ToolExecutionUpdate { .. } | Self::ProgressMessage { .. }
        )
    }

    /// Whether the events of its loop end with it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::AgentEnd(_) | Self::RunSuspended { .. })
    }
}
