//! Reads a message with its turn beside its fields.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{AgentMessage, ExtensionMessage, ExtensionRole, LlmMessage};
use crate::identity::{DeferredHandle, LoopId, Timestamp, ToolCallId, ToolName, TurnId};
use crate::message::{
    AssistantMessage, Content, DeferredCall, StopReason, ToolResultMessage, Usage, UserMessage,
};
use crate::model::ApiProtocol;
use crate::tagged::{self, Tagged};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Role {
    User,
    Assistant,
    ToolResult,
    Extension,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct User {
    content: Vec<Content>,
    #[serde(default)]
    timestamp: Timestamp,
    deferred: Option<Box<DeferredCall>>,
    request_id: Option<Box<str>>,
    turn_id: Option<TurnId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assistant {
    content: Vec<Content>,
    stop_reason: StopReason,
    api: Option<ApiProtocol>,
    provider: String,
    model: String,
    response_id: Option<String>,
    usage: Usage,
    #[serde(default)]
    timestamp: Timestamp,
    #[serde(alias = "error_message")]
    error_message: Option<String>,
    turn_id: Option<TurnId>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    tool_call_id: ToolCallId,
    tool_name: ToolName,
    content: Vec<Content>,
    is_error: bool,
    #[serde(default)]
    details: Value,
    duration_ms: Option<u64>,
    child_loop_id: Option<LoopId>,
    deferred: Option<DeferredHandle>,
    #[serde(default)]
    timestamp: Timestamp,
    turn_id: Option<TurnId>,
}

#[derive(Deserialize)]
struct Extension {
    kind: String,
    data: Value,
}

impl Tagged for AgentMessage {
    const TAG: &'static str = "role";
    type Tag = Role;

    fn read<'de, D: Deserializer<'de>>(role: Role, fields: D) -> Result<Self, D::Error> {
        let (message, turn_id) = match role {
            Role::User => {
                let User { content, timestamp, deferred, request_id, turn_id } = User::deserialize(fields)?;
                (UserMessage { content, timestamp, deferred, request_id }.into(), turn_id)
            }
            Role::Assistant => {
                let m = Assistant::deserialize(fields)?;
                let message = AssistantMessage {
                    content: m.content,
                    stop_reason: m.stop_reason,
                    api: m.api,
                    provider: m.provider,
                    model: m.model,
                    response_id: m.response_id,
                    usage: m.usage,
                    timestamp: m.timestamp,
                    error_message: m.error_message,
                };
                (message.into(), m.turn_id)
            }
            Role::ToolResult => {
                let m = ToolResult::deserialize(fields)?;
                let message = ToolResultMessage {
                    tool_call_id: m.tool_call_id,
                    tool_name: m.tool_name,
                    content: m.content.into(),
                    is_error: m.is_error,
                    details: m.details,
                    duration_ms: m.duration_ms,
                    child_loop_id: m.child_loop_id,
                    deferred: m.deferred,
                    timestamp: m.timestamp,
                };
                (message.into(), m.turn_id)
            }
            Role::Extension => {
                let Extension { kind, data } = Extension::deserialize(fields)?;
                return Ok(Self::Extension(ExtensionMessage { role: ExtensionRole::Extension, kind, data }));
            }
        };
        Ok(Self::Llm(LlmMessage { message, turn_id }))
    }
}

impl<'de> Deserialize<'de> for AgentMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        tagged::deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for LlmMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match AgentMessage::deserialize(deserializer)? {
            AgentMessage::Llm(message) => Ok(message),
            AgentMessage::Extension(_) => {
                Err(serde::de::Error::custom("a note is not a message for the model"))
            }
        }
    }
}
