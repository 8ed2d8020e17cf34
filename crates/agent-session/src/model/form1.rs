//! The form of events in files of version 1.
//!
//! Live events have snake-case tags and flat deltas. Session files and journals of version 1 have an older form: tags are
//! the names of the variants, and a delta is an object under the name of its variant.
//! The types here are definitions for serde only; their variants and fields must equal those of the types they describe.

use agent_core::{
    AgentEnd, AgentEvent, AgentStart, Answer, BudgetEvent, CacheBreak, CompactionEnded, CompactionReason,
    LoopId, MessageRef, MessageSnapshot, ParallelLoopEnd, ParallelLoopStart, Question, QuestionId, RetryNote,
    RouteChange, StepKey, StreamDelta, Timestamp, ToolArguments, ToolCallId, ToolExecutionEnd, ToolName,
    ToolResult, TurnTrigger, Usage,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Reads an event.
///
/// # Errors
/// When the value is not an event of a kind that this version knows.
pub(crate) fn read<'de, D: Deserializer<'de>>(value: D) -> Result<AgentEvent, D::Error> {
    Form::deserialize(value)
}

/// An event that serializes in the form of version 1.
#[derive(Debug)]
pub(crate) struct Event<'a>(pub(crate) &'a AgentEvent);

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Form::serialize(self.0, serializer)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AgentEvent", tag = "type")]
#[non_exhaustive]
enum Form {
    AgentStart(Box<AgentStart>),
    InputRejected {
        loop_id: LoopId,
        reason: String,
    },
    TurnStart {
        loop_id: LoopId,
        turn_index: u32,
        timestamp: Timestamp,
        triggered_by: TurnTrigger,
    },
    MessageStart {
        loop_id: LoopId,
        message: MessageRef,
    },
    MessageUpdate {
        loop_id: LoopId,
        step: StepKey,
        attempt: u32,
        #[serde(skip)]
        message: MessageSnapshot,
        content_index: u32,
        #[serde(with = "Piece")]
        delta: StreamDelta,
    },
    MessageEnd {
        loop_id: LoopId,
        message: MessageRef,
        #[serde(default)]
        tokens: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        superseded: bool,
    },
    ToolExecutionStart {
        loop_id: LoopId,
        tool_call_id: ToolCallId,
        tool_name: ToolName,
        #[serde(flatten)]
        args: ToolArguments,
    },
    ToolExecutionUpdate {
        loop_id: LoopId,
        tool_call_id: ToolCallId,
        tool_name: ToolName,
        partial_result: Box<ToolResult>,
    },
    ProgressMessage {
        loop_id: LoopId,
        tool_call_id: ToolCallId,
        tool_name: ToolName,
        text: String,
    },
    ToolExecutionEnd(Box<ToolExecutionEnd>),
    QuestionAsked {
        loop_id: LoopId,
        question: Question,
    },
    QuestionAnswered {
        loop_id: LoopId,
        question_id: QuestionId,
        answer: Answer,
    },
    RunSuspended {
        loop_id: LoopId,
        questions: Vec<Question>,
    },
    RetryStart(Box<RetryNote>),
    RetryEnd(Box<RetryNote>),
    RouteChanged(Box<RouteChange>),
    TurnContinued {
        loop_id: LoopId,
        continuation: u32,
        max_continuations: u32,
    },
    Budget(Box<BudgetEvent>),
    CacheBroken(Box<CacheBreak>),
    CompactionStarted {
        loop_id: LoopId,
        reason: CompactionReason,
        estimated_tokens: u64,
        message_count: usize,
        timestamp: Timestamp,
    },
    CompactionEnded(Box<CompactionEnded>),
    TurnEnd {
        loop_id: LoopId,
        message: Option<MessageRef>,
        usage: Usage,
        timestamp: Timestamp,
        tool_results: Vec<MessageRef>,
    },
    AgentEnd(Box<AgentEnd>),
    ParallelLoopStart(Box<ParallelLoopStart>),
    ParallelLoopEnd(Box<ParallelLoopEnd>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StreamDelta")]
#[non_exhaustive]
enum Piece {
    Text {
        #[serde(rename = "delta")]
        text: String,
    },
    Thinking {
        #[serde(rename = "delta")]
        text: String,
    },
    ToolCallDelta {
        #[serde(rename = "delta")]
        text: String,
    },
}
