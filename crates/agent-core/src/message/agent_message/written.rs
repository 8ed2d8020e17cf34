//! Serializes a message with its turn beside its fields.
//!
//! The output equals that of serde's `flatten`, which costs twice as much; every journal record contains messages.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::LlmMessage;
use crate::identity::{DeferredHandle, LoopId, Timestamp, ToolCallId, ToolName, TurnId};
use crate::message::{Content, DeferredCall, Message, StopReason, Usage};
use crate::model::ApiProtocol;

/// The fields of [`Message`] in their order, followed by the turn.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Written<'m> {
    User {
        content: &'m [Content],
        timestamp: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        deferred: Option<&'m DeferredCall>,
        #[serde(skip_serializing_if = "Option::is_none")]
        request_id: Option<&'m str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_id: Option<&'m TurnId>,
    },
    Assistant {
        content: &'m [Content],
        stop_reason: StopReason,
        #[serde(skip_serializing_if = "Option::is_none")]
        api: Option<ApiProtocol>,
        provider: &'m str,
        model: &'m str,
        #[serde(skip_serializing_if = "Option::is_none")]
        response_id: Option<&'m str>,
        usage: &'m Usage,
        timestamp: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_message: Option<&'m str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_id: Option<&'m TurnId>,
    },
    ToolResult {
        tool_call_id: &'m ToolCallId,
        tool_name: &'m ToolName,
        content: &'m [Content],
        is_error: bool,
        #[serde(skip_serializing_if = "Value::is_null")]
        details: &'m Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        duration_ms: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        child_loop_id: Option<&'m LoopId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        deferred: Option<&'m DeferredHandle>,
        timestamp: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn_id: Option<&'m TurnId>,
    },
}

impl Serialize for LlmMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let turn_id = self.turn_id.as_ref();
        let written = match &self.message {
            Message::User(m) => Written::User {
                content: &m.content,
                timestamp: m.timestamp,
                deferred: m.deferred.as_deref(),
                request_id: m.request_id.as_deref(),
                turn_id,
            },
            Message::Assistant(m) => Written::Assistant {
                content: &m.content,
                stop_reason: m.stop_reason,
                api: m.api,
                provider: &m.provider,
                model: &m.model,
                response_id: m.response_id.as_deref(),
                usage: &m.usage,
                timestamp: m.timestamp,
                error_message: m.error_message.as_deref(),
                turn_id,
            },
            Message::ToolResult(m) => Written::ToolResult {
                tool_call_id: &m.tool_call_id,
                tool_name: &m.tool_name,
                content: &m.content,
                is_error: m.is_error,
                details: &m.details,
                duration_ms: m.duration_ms,
                child_loop_id: m.child_loop_id.as_ref(),
                deferred: m.deferred.as_ref(),
                timestamp: m.timestamp,
                turn_id,
            },
        };
        written.serialize(serializer)
    }
}
