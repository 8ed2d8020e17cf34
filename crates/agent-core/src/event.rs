//! The typed events of a run, which subscribers receive and which the journal stores.
//!
//! Every event except the live ones ([`is_live`](AgentEvent::is_live)) comes out of the step function. Together they are
//! sufficient to rebuild the messages, the history and the loop tree. Live events are only delivered to subscribers.
//!
//! In JSON an event is a flat object with a `type` tag; tags and field names are in snake case. Values that have a form
//! of their own (messages, content blocks, usage, tool results, error kinds) keep it. Session files of version 1 have an
//! older form of events, which `agent-session` reads and writes.
//!
//! ```
//! use agent_core::{AgentEvent, LoopId};
//! let event = AgentEvent::InputRejected { loop_id: LoopId::from("s.m.1"), reason: "no".into() };
//! assert_eq!(
//!     serde_json::to_string(&event)?,
//!     r#"{"type":"input_rejected","loop_id":"s.m.1","reason":"no"}"#
//! );
//! # Ok::<(), serde_json::Error>(())
//! ```

mod group;
mod json;
mod notes;
mod question;
mod run;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use group::{ParallelLoopEnd, ParallelLoopStart};
pub use notes::{BudgetEvent, BudgetNote, CompactionEnded, CompactionReason, RetryNote, RouteChange};
pub use question::{Answer, Question};
pub use run::{AgentEnd, AgentStart, Ended, LoopConfigSnapshot};

use crate::history::MessageRef;
use crate::identity::{LoopId, QuestionId, StepKey, Timestamp, ToolCallId, ToolName, TurnTrigger};
use crate::message::{ToolArguments, Usage};
use crate::prefix::CacheBreak;
use crate::provider::MessageSnapshot;
use crate::tool::ToolResult;

/// An event of a run. Each variant states when the run emits it and in which order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEvent {
    /// The run began. Emitted first, except when `before_loop` vetoed the run.
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
        #[serde(with = "json::trigger")]
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
        /// Whether this was the reply of an attempt that is tried again: it enters no history.
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
        #[serde(flatten, with = "json::arguments")]
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
        /// The answer.
        #[serde(with = "json::answer")]
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
    /// The run ended. There is exactly one, and no event of the loop follows it.
    AgentEnd(Box<AgentEnd>),
    /// Branches were announced: each will have its own events, told apart by their loop, and its own end.
    ParallelLoopStart(Box<ParallelLoopStart>),
    /// The group ended. There is one for each start, on every path, after the ends of all its loops.
    ParallelLoopEnd(Box<ParallelLoopEnd>),
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
    /// How long the tool ran, in milliseconds; absent when it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The loop of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
}

/// A piece of a reply as it arrived.
///
/// In JSON it is flat: `{"type":"text_delta","text":"Hel"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum StreamDelta {
    /// A piece of text.
    #[serde(rename = "text_delta")]
    Text {
        /// The text that arrived.
        text: String,
    },
    /// A piece of thinking.
    #[serde(rename = "thinking_delta")]
    Thinking {
        /// The text that arrived.
        text: String,
    },
    /// A piece of the JSON text of a call's arguments.
    #[serde(rename = "tool_call_delta")]
    ToolCallDelta {
        /// The text that arrived.
        text: String,
    },
}

impl AgentEvent {
    /// Returns the id of the loop that emitted the event; for the events of a group, the id of the group.
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

    /// Returns whether the event is only delivered to subscribers. Live events are not needed to rebuild the history.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::MessageUpdate { .. } | Self::ToolExecutionUpdate { .. } | Self::ProgressMessage { .. }
        )
    }

    /// Returns whether the event stream of its loop ends with this event.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::AgentEnd(_) | Self::RunSuspended { .. })
    }
}
