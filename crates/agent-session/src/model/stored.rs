//! The form of messages and events in the lines of stores.
//!
//! Each fact is written once: messages in full, and events without what their messages contain. An event names a message
//! by its [`Place`] in the loop. The form of an event is one of these:
//!
//! | `type` | meaning |
//! |---|---|
//! | `message` | the start and the end of a message that arrived as a whole |
//! | `reply` | the start and the end of a reply; `began` is its first time if it differs from the message's |
//! | `tool_start` | the start of the call at `call`: the place of the reply and the position among its calls |
//! | `tool_end` | the end of the call whose result message is at `message` |
//! | `turn_start`, `message_start`, `message_end`, `turn_end`, `agent_end`, `compaction_ended` | the event without its loop, and with places instead of messages; the messages and results of a turn and of a loop are omitted where they are known |
//! | any other | the event as it is sent live |

mod content;
mod head;
mod read;
mod write;

use agent_core::{AgentEvent, LoopId, MessageRef, Usage};
use agent_core::{
    AgentMessage, Message, Timestamp, ToolCall, ToolExecutionEnd, ToolResult, ToolResultMessage,
};
use serde::{Deserialize, Serialize};

pub(crate) use content::{Content, Counts, Gaps, MISSING, Messages, ReadContent};
pub(crate) use head::{ReadHead, read_head, write_head};
use read::{is_live, read_event};
pub(crate) use write::Events;

use super::LoopRecord;
use super::event_messages::Place;

/// The events that every turn has, in their short forms.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Short {
    Message {
        message: Place,
        tokens: u64,
    },
    Reply {
        message: Place,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        began: Option<Timestamp>,
        tokens: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        superseded: bool,
    },
    TurnStart {
        turn_index: u32,
        /// Absent if it is the time of the line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
        triggered_by: Trigger,
    },
    ToolStart {
        call: (Place, usize),
    },
    ToolEnd {
        message: Place,
    },
    TurnEnd {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Place>,
        /// Absent if it is that of the reply.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Absent if it is the time of the line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timestamp: Option<Timestamp>,
        /// Absent if they are those of the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_results: Option<Vec<Place>>,
    },
}

/// The cause of a turn, in the form of live events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Trigger {
    User,
    SubAgent,
    Continuation,
    Branch,
}

/// Returns the message at a place.
fn message_at(record: &LoopRecord, place: Place) -> Result<&MessageRef, String> {
    let (list, at, name) = match place {
        Place::Own(at) => (&record.messages, at, "messages"),
        Place::Other { other } => (&record.other_messages, other, "other_messages"),
    };
    list.get(at).ok_or_else(|| format!("an event names message {at} of {} in {name}", list.len()))
}

/// Returns a call of the reply at a place.
fn call_at(record: &LoopRecord, (place, position): (Place, usize)) -> Result<&ToolCall, String> {
    let reply = message_at(record, place)?.as_llm().and_then(Message::as_assistant);
    let call = reply.and_then(|reply| reply.tool_calls().nth(position));
    call.ok_or_else(|| format!("an event names call {position} of a message that lacks it"))
}

fn start_of_call(loop_id: &LoopId, call: &ToolCall) -> AgentEvent {
    AgentEvent::ToolExecutionStart {
        loop_id: loop_id.clone(),
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        args: call.arguments.clone(),
    }
}

/// Returns whether [`ToolExecutionEnd::from_message`] makes this event, without copying the result.
fn is_end_of_call(end: &ToolExecutionEnd, message: &ToolResultMessage) -> bool {
    let ToolResult { content, details, is_error, terminate, child_loop_id, usage, deferred, .. } =
        &end.result;
    end.tool_call_id == message.tool_call_id
        && end.tool_name == message.tool_name
        && end.is_error == message.is_error
        && end.duration_ms == message.duration_ms
        && end.child_loop_id == message.child_loop_id
        && *is_error == message.is_error
        && !terminate
        && usage.is_none()
        && *child_loop_id == message.child_loop_id
        && *deferred == message.deferred
        && *details == message.details
        && *content == message.content
}

/// Returns the tokens of the reply.
fn usage_of(message: &AgentMessage) -> Option<Usage> {
    message.as_llm().and_then(Message::as_assistant).map(|reply| reply.usage)
}

#[cfg(test)]
mod tests;
