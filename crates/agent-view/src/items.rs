//! What a turn contains, in the order in which it was recorded.

pub(crate) mod notes;

use agent_core::{AgentMessage, DeferredState, Message, StopReason, ToolExecutionEnd, ToolResultMessage};
use serde::Serialize;
use serde_json::Value;

use crate::blocks::{Block, blocks};
use crate::costs::{Amount, Tokens};
use notes::Note;

/// A message or a note of a turn.
#[derive(Debug, Serialize)]
#[serde(tag = "k", rename_all = "snake_case")]
pub(crate) enum Item<'s> {
    User {
        c: Vec<Block<'s>>,
        t: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        later: Option<Later<'s>>,
    },
    Reply(Reply<'s>),
    Result(ToolResult<'s>),
    Extension {
        kind: &'s str,
        data: &'s Value,
    },
    Note(Note<'s>),
}

/// For the result of a call whose work went on after the call: the call and the state of its work.
#[derive(Debug, Serialize)]
pub(crate) struct Later<'s> {
    call: &'s str,
    tool: &'s str,
    handle: &'s str,
    state: &'static str,
    #[serde(skip_serializing_if = "Value::is_null")]
    details: &'s Value,
}

/// A reply of a model.
#[derive(Debug, Serialize)]
pub(crate) struct Reply<'s> {
    pub(crate) c: Vec<Block<'s>>,
    model: &'s str,
    provider: &'s str,
    stop: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    err: Option<&'s str>,
    pub(crate) t: u64,
    u: Tokens,
    cost: Amount,
    /// Whether the attempt was repeated, so that the reply is not in the conversation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) old: bool,
    #[serde(skip_serializing_if = "is_zero")]
    vendor_calls: u32,
}

/// The result of a tool call.
#[derive(Debug, Serialize)]
pub(crate) struct ToolResult<'s> {
    pub(crate) id: &'s str,
    pub(crate) name: &'s str,
    c: Vec<Block<'s>>,
    pub(crate) err: bool,
    #[serde(skip_serializing_if = "Value::is_null")]
    details: &'s Value,
    pub(crate) ms: Option<u64>,
    /// The time when the call ended; absent if no message has it.
    pub(crate) t: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'s str>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl<'s> Item<'s> {
    /// Returns the item of a message; `None` for a kind of message that this version does not know.
    pub(crate) fn of(message: &'s AgentMessage, cost: Amount, superseded: bool) -> Option<Self> {
        if let Some(reason) = message.stopped_run_reason() {
            return Some(Self::Note(Note::stopped(&reason)));
        }
        let message = match message {
            AgentMessage::Llm(llm) => &llm.message,
            AgentMessage::Extension(note) => {
                return Some(Self::Extension { kind: &note.kind, data: &note.data });
            }
            _ => return None,
        };
        Some(match message {
            Message::User(user) => Self::User {
                c: blocks(&user.content),
                t: user.timestamp.0,
                later: user.deferred.as_deref().map(|call| Later {
                    call: call.tool_call_id.as_str(),
                    tool: call.tool_name.as_str(),
                    handle: call.handle.as_str(),
                    state: match call.state {
                        DeferredState::Completed => "completed",
                        DeferredState::Failed => "failed",
                        _ => "running",
                    },
                    details: &call.details,
                }),
            },
            Message::Assistant(reply) => Self::Reply(Reply {
                c: blocks(&reply.content),
                model: &reply.model,
                provider: &reply.provider,
                stop: stop_name(reply.stop_reason),
                err: reply.error_message.as_deref(),
                t: reply.timestamp.0,
                u: Tokens(reply.usage),
                cost,
                old: superseded,
                vendor_calls: reply.usage.server_tool_calls,
            }),
            Message::ToolResult(result) => Self::Result(ToolResult::of(result)),
            _ => return None,
        })
    }
}

impl<'s> ToolResult<'s> {
    pub(crate) fn of(result: &'s ToolResultMessage) -> Self {
        Self {
            id: result.tool_call_id.as_str(),
            name: result.tool_name.as_str(),
            c: blocks(&result.content),
            err: result.is_error,
            details: &result.details,
            ms: result.duration_ms,
            t: Some(result.timestamp.0),
            child: result.child_loop_id.as_ref().map(agent_core::LoopId::as_str),
            handle: result.deferred.as_ref().map(agent_core::DeferredHandle::as_str),
        }
    }

    /// Returns the result of a call that ended in a run whose message with the result was never recorded.
    pub(crate) fn of_end(end: &'s ToolExecutionEnd) -> Self {
        Self {
            id: end.tool_call_id.as_str(),
            name: end.tool_name.as_str(),
            c: blocks(&end.result.content),
            err: end.is_error,
            details: &end.result.details,
            ms: end.duration_ms,
            t: None,
            child: end.child_loop_id.as_ref().map(agent_core::LoopId::as_str),
            handle: end.result.deferred.as_ref().map(agent_core::DeferredHandle::as_str),
        }
    }

    pub(crate) fn content(&self) -> &[Block<'s>] {
        &self.c
    }

    /// Returns the time when the tool began; `None` if it did not run.
    pub(crate) fn began(&self) -> Option<u64> {
        Some(self.t?.saturating_sub(self.ms?))
    }
}

fn stop_name(stop: StopReason) -> &'static str {
    match stop {
        StopReason::Stop => "stop",
        StopReason::Length => "length",
        StopReason::ToolUse => "tool use",
        StopReason::Paused => "paused",
        StopReason::Error => "error",
        StopReason::Aborted => "aborted",
        _ => "unknown",
    }
}
