//! The typed events of a run, which subscribers receive and which the journal stores.
//!
//! Every event except the live ones ([`is_live`](AgentEvent::is_live)) is emitted by the step function. Together they
//! are sufficient to rebuild the messages, the history and the loop tree. Live events are only delivered to
//! subscribers.
//!
//! A [`NumberedEvent`] adds the number of the event in its loop, and the depth and the parent of the loop.
//! [`EventReceiver::recv_numbered`](crate::EventReceiver::recv_numbered) returns it. The events of a sub-agent are in the
//! stream of the loop that called it, with a greater depth.
//!
//! In JSON an event is a flat object with a `type` tag; tags and field names are in snake case. Values that have a form
//! of their own (messages, content blocks, usage, tool results, error kinds) keep it. Session files of version 1 have
//! an older form of events, which `agent-session` reads and writes.
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

mod approval;
mod group;
mod json;
mod new_messages;
mod notes;
mod numbered;
mod question;
mod run;
mod run_end;
#[cfg(test)]
mod tests;
mod unknown_model;

use serde::{Deserialize, Serialize};

pub use approval::{ApprovalHash, ApprovalHashError, ApprovalView, Printable, ToolSnapshot};
pub use group::{ParallelLoopEnd, ParallelLoopStart};
pub use new_messages::{NewMessages, ReadMessagesError, StoredMessages};
pub use notes::{
    BudgetEvent, BudgetNote, CompactionEnded, CompactionReason, JournalWarning, RetryNote, RouteChange,
    TransportFallback,
};
pub use numbered::{EventId, NumberedEvent};
pub use question::{Answer, Question};
pub use run::{AgentEnd, AgentStart, Ended, LoopConfigSnapshot, SpawningCall};
pub use run_end::{RunEnd, RunFailure, RunReply, StopCause};
pub use unknown_model::{UnknownFact, UnknownModel};

use crate::history::MessageRef;
use crate::identity::{LoopId, QuestionId, StepKey, Timestamp, ToolCallId, ToolName, TurnTrigger};
use crate::message::{Citation, ToolArguments, ToolResultMessage, Usage};
use crate::prefix::CacheBreak;
use crate::provider::{MessageSnapshot, ServerToolCall};
use crate::tool::ToolResult;

/// An event of a run. Each variant states when the run emits it and in which order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEvent {
    /// The run began. Emitted first, except when `before_loop` vetoed the run.
    AgentStart(Box<AgentStart>),
    /// An input filter rejected the prompt. `AgentEnd` follows.
    InputRejected {
        /// The id of the loop.
        loop_id: LoopId,
        /// The reason of the rejection.
        reason: String,
    },
    /// A turn started: one model call with its retries, and the tools that the reply calls.
    TurnStart {
        /// The id of the loop.
        loop_id: LoopId,
        /// The index of the turn in the loop, from 0.
        turn_index: u32,
        /// The time of the event.
        timestamp: Timestamp,
        /// The origin of the turn: the user, a sub-agent, a continuation or a branch.
        #[serde(with = "json::Trigger")]
        triggered_by: TurnTrigger,
    },
    /// A message starts. A reply is empty at its start; any other message is complete.
    MessageStart {
        /// The id of the loop.
        loop_id: LoopId,
        /// The message that starts.
        message: MessageRef,
    },
    /// A piece of a reply arrived. This is a live event.
    MessageUpdate {
        /// The id of the loop.
        loop_id: LoopId,
        /// The key of the model call.
        step: StepKey,
        /// The index of the attempt in the turn, from 0. A reader discards the pieces of earlier attempts.
        attempt: u32,
        /// The reply so far; not serialized.
        #[serde(skip)]
        message: MessageSnapshot,
        /// The index of the content block.
        content_index: u32,
        /// The piece that arrived.
        delta: StreamDelta,
    },
    /// A message is complete. Unless it is superseded, it enters the history; a reply with calls enters together with
    /// its results.
    MessageEnd {
        /// The id of the loop.
        loop_id: LoopId,
        /// The message with all its blocks.
        message: MessageRef,
        /// The token count of the message.
        #[serde(default)]
        tokens: u64,
        /// Whether the reply belongs to an attempt that is retried. Such a reply does not enter the history.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        superseded: bool,
    },
    /// A tool call starts. Also emitted for calls that are denied, skipped or aborted, so that every call has a start
    /// and an end.
    ToolExecutionStart {
        /// The id of the loop.
        loop_id: LoopId,
        /// The id of the call.
        tool_call_id: ToolCallId,
        /// The name of the tool.
        tool_name: ToolName,
        /// The arguments as the model sent them.
        #[serde(flatten, serialize_with = "json::arguments")]
        args: ToolArguments,
    },
    /// A tool reports a partial result. This is a live event.
    ToolExecutionUpdate {
        /// The id of the loop.
        loop_id: LoopId,
        /// The id of the call.
        tool_call_id: ToolCallId,
        /// The name of the tool.
        tool_name: ToolName,
        /// The partial result so far.
        partial_result: Box<ToolResult>,
    },
    /// A tool reports progress. This is a live event.
    ProgressMessage {
        /// The id of the loop.
        loop_id: LoopId,
        /// The id of the call.
        tool_call_id: ToolCallId,
        /// The name of the tool.
        tool_name: ToolName,
        /// The progress text for the user.
        text: String,
    },
    /// A tool call ended, with the tool's own result. Changes of the `after_tool_execution` hook appear in the
    /// message.
    ToolExecutionEnd(Box<ToolExecutionEnd>),
    /// A call or a gate waits for an answer.
    QuestionAsked {
        /// The id of the loop.
        loop_id: LoopId,
        /// The question to the user.
        question: Question,
    },
    /// A question was answered.
    QuestionAnswered {
        /// The id of the loop.
        loop_id: LoopId,
        /// The id of the question.
        question_id: QuestionId,
        /// The answer that was given.
        #[serde(with = "json::answer")]
        answer: Answer,
    },
    /// The run waits for an answer and nothing else continues. The stream ends here, but the run does not.
    RunSuspended {
        /// The id of the loop.
        loop_id: LoopId,
        /// The open questions of the run.
        questions: Vec<Question>,
    },
    /// An attempt failed and is repeated after a delay.
    RetryStart(Box<RetryNote>),
    /// The result of an announced retry.
    RetryEnd(Box<RetryNote>),
    /// A model failed, and another one makes the next attempt.
    RouteChanged(Box<RouteChange>),
    /// The vendor paused the reply, and a further request in the same turn continues it.
    TurnContinued {
        /// The id of the loop.
        loop_id: LoopId,
        /// The number of the request that continues the turn, from 1.
        continuation: u32,
        /// The maximum number of such requests in a turn.
        max_continuations: u32,
    },
    /// The run's budget reserved, charged or denied an amount, or a limit was raised. Emitted only by runs with a
    /// budget.
    Budget(Box<BudgetEvent>),
    /// A request differs from the last one in its prefix, so the provider's cache does not apply to a part of it.
    /// Emitted when its reply has ended, with the figures that the provider reports.
    CacheBroken(Box<CacheBreak>),
    /// The journal of the run warns of something that will soon end runs. Emitted at most once per cause and open journal, at
    /// the end of a turn.
    JournalWarning {
        /// The id of the loop.
        loop_id: LoopId,
        /// The cause of the warning.
        warning: JournalWarning,
    },
    /// The run calls a model of which facts are unknown. Emitted before the first call of each such model, at most once for
    /// each process that drives the run.
    ModelUnknown(Box<UnknownModel>),
    /// The provider uses another transport, because the preferred one does not work with the server. Emitted after the start
    /// of the reply with which the provider reports it, once for each provider and address.
    TransportFallback(Box<TransportFallback>),
    /// The history is too long, and a compaction starts.
    CompactionStarted {
        /// The id of the loop.
        loop_id: LoopId,
        /// The reason of the compaction.
        reason: CompactionReason,
        /// The counted tokens of the context.
        estimated_tokens: u64,
        /// The number of messages in the history.
        message_count: usize,
        /// The time of the event.
        timestamp: Timestamp,
    },
    /// The history was shortened. The splices turn the old history into the new one.
    CompactionEnded(Box<CompactionEnded>),
    /// A turn ended. Every `TurnStart` has exactly one.
    TurnEnd {
        /// The id of the loop.
        loop_id: LoopId,
        /// The reply; `None` if the run ended before there was one.
        message: Option<MessageRef>,
        /// The tokens used in this turn.
        usage: Usage,
        /// The time of the event.
        timestamp: Timestamp,
        /// The results, in the order of the calls.
        tool_results: Vec<MessageRef>,
    },
    /// The run ended. There is exactly one, and no event of the loop follows it.
    AgentEnd(Box<AgentEnd>),
    /// A group of parallel branches starts. Each branch emits its own events, with its own loop id, and its own end.
    ParallelLoopStart(Box<ParallelLoopStart>),
    /// The group ended. Emitted once per start, after the ends of all its loops.
    ParallelLoopEnd(Box<ParallelLoopEnd>),
}

/// The data of [`AgentEvent::ToolExecutionEnd`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolExecutionEnd {
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// The name of the tool.
    pub tool_name: ToolName,
    /// The tool's own result.
    pub result: ToolResult,
    /// Whether the call failed.
    pub is_error: bool,
    /// How long the tool ran, in milliseconds; absent when it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The id of the sub-agent's loop, if the tool started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
}

impl ToolExecutionEnd {
    /// Creates the end of a call from the message with its result, as if no hook had changed the result.
    #[must_use]
    pub fn from_message(loop_id: LoopId, message: &ToolResultMessage) -> Self {
        let mut result = ToolResult::content(message.content.clone());
        result.details.clone_from(&message.details);
        result.is_error = message.is_error;
        result.child_loop_id.clone_from(&message.child_loop_id);
        result.deferred.clone_from(&message.deferred);
        Self {
            loop_id,
            tool_call_id: message.tool_call_id.clone(),
            tool_name: message.tool_name.clone(),
            result,
            is_error: message.is_error,
            duration_ms: message.duration_ms,
            child_loop_id: message.child_loop_id.clone(),
        }
    }
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
    /// A source of the text. It may arrive after later pieces of the text and after the end of its block.
    #[serde(rename = "citation")]
    Citation {
        /// The source and the cited part.
        citation: Box<Citation>,
    },
    /// The vendor begins or ends a call of one of its own tools, such as a web search.
    #[serde(rename = "server_tool")]
    ServerTool {
        /// The call, as it is displayed.
        call: Box<ServerToolCall>,
    },
}

impl AgentEvent {
    /// Returns the text that arrived, if this is a [`MessageUpdate`](Self::MessageUpdate) with text of the answer of its
    /// loop.
    #[must_use]
    pub fn text_delta(&self) -> Option<&str> {
        match self {
            Self::MessageUpdate { delta: StreamDelta::Text { text }, .. } => Some(text),
            _ => None,
        }
    }

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
            Self::ModelUnknown(e) => &e.loop_id,
            Self::TransportFallback(e) => &e.loop_id,
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
            | Self::JournalWarning { loop_id, .. }
            | Self::QuestionAsked { loop_id, .. }
            | Self::QuestionAnswered { loop_id, .. }
            | Self::RunSuspended { loop_id, .. }
            | Self::TurnContinued { loop_id, .. }
            | Self::CompactionStarted { loop_id, .. }
            | Self::TurnEnd { loop_id, .. } => loop_id,
        }
    }

    /// Returns whether the event is only delivered to subscribers. Live events are not needed to rebuild the history.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::MessageUpdate { .. }
                | Self::ToolExecutionUpdate { .. }
                | Self::ProgressMessage { .. }
                | Self::JournalWarning { .. }
                | Self::ModelUnknown(_)
                | Self::TransportFallback(_)
        )
    }

    /// Returns whether the event stream of its loop ends with this event.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::AgentEnd(_) | Self::RunSuspended { .. })
    }
}
