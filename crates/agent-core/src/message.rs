//! What is said: content blocks, messages, usage and why a reply stopped.
//!
//! The JSON shapes are those of session files: `role` and `type` are tags, keys are camelCase.
//!
//! ```
//! use agent_core::{Message, StopReason};
//! let message: Message = serde_json::from_str(
//!     r#"{"role":"user","content":[{"type":"text","text":"hello"}],"timestamp":1}"#,
//! )?;
//! assert_eq!(message.text(), "hello");
//! assert_eq!(serde_json::to_string(&StopReason::ToolUse)?, "\"toolUse\"");
//! # Ok::<(), serde_json::Error>(())
//! ```

mod agent_message;
mod arguments;
pub(crate) mod content;
pub mod overflow;
mod tokens;
mod usage;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use agent_message::{AgentMessage, ExtensionMessage, LlmMessage};
pub use arguments::{MAX_ARGUMENTS_SHOWN, ToolArguments};
pub use content::{Content, ImageContent, OpaqueContent, TextContent, ThinkingContent, ToolCall};
pub use tokens::{HeuristicTokenCounter, TokenCounter, content_tokens, estimate_tokens, message_tokens};
pub use usage::{Cost, Usage};

use crate::identity::{LoopId, Timestamp, ToolCallId, ToolName};
use crate::model::ApiProtocol;
pub use crate::model::{CostConfig, CostTier};

/// Why a reply ended (REQ-005).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StopReason {
    /// The model was done.
    Stop,
    /// The output limit was reached.
    Length,
    /// The model asks for tools.
    ToolUse,
    /// The call failed; `error_message` says how.
    Error,
    /// The caller aborted; what had arrived is kept.
    Aborted,
}

/// One message of a conversation with a model (REQ-002).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Message {
    /// From the person or program that uses the agent.
    User(UserMessage),
    /// From the model.
    Assistant(AssistantMessage),
    /// What a tool gave back.
    ToolResult(ToolResultMessage),
}

/// What a user said.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UserMessage {
    /// The blocks, in order.
    pub content: Vec<Content>,
    /// When it was made.
    #[serde(default)]
    pub timestamp: Timestamp,
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The blocks, in order.
    pub content: Vec<Content>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// The protocol that it came by. With provider and model it says who may see its signatures again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ApiProtocol>,
    /// The provider's name, as in [`ModelConfig::provider`](crate::ModelConfig::provider).
    pub provider: String,
    /// The model that was asked.
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Tokens used, as far as the provider said.
    pub usage: Usage,
    /// When the reply began.
    #[serde(default)]
    pub timestamp: Timestamp,
    /// What went wrong, for `Error` and `Aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "error_message")]
    pub error_message: Option<String>,
}

/// What a tool call gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultMessage {
    /// The call that this answers.
    pub tool_call_id: ToolCallId,
    /// The tool.
    pub tool_name: ToolName,
    /// What the model sees.
    pub content: Vec<Content>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Structured facts for programs; the model does not see them.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
    /// How long the tool ran, in milliseconds; absent when it did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The loop of a sub-agent that this call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
    /// When it ended.
    #[serde(default)]
    pub timestamp: Timestamp,
}

impl UserMessage {
    /// A message with these blocks.
    #[must_use]
    pub fn new(content: Vec<Content>, timestamp: Timestamp) -> Self {
        Self { content, timestamp }
    }
}

impl AssistantMessage {
    /// An empty reply of a model that ended with `stop_reason`.
    #[must_use]
    pub fn new(provider: impl Into<String>, model: impl Into<String>, stop_reason: StopReason) -> Self {
        Self {
            content: Vec::new(),
            stop_reason,
            api: None,
            provider: provider.into(),
            model: model.into(),
            response_id: None,
            usage: Usage::default(),
            timestamp: Timestamp::default(),
            error_message: None,
        }
    }

    /// The text blocks, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        content::joined_text(&self.content, "")
    }

    /// The calls in this reply, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(Content::as_tool_call)
    }

    /// Whether the reply ended `Error` or `Aborted`: it is kept, but no model is shown it again.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }

    /// Whether the error text says that the context was too long (REQ-077).
    #[must_use]
    pub fn is_context_overflow(&self) -> bool {
        self.stop_reason == StopReason::Error
            && self.error_message.as_deref().is_some_and(overflow::is_overflow_text)
    }
}

impl ToolResultMessage {
    /// A result of the call `id` of `tool`.
    #[must_use]
    pub fn new(id: ToolCallId, tool: ToolName, content: Vec<Content>) -> Self {
        Self {
            tool_call_id: id,
            tool_name: tool,
            content,
            is_error: false,
            details: serde_json::Value::Null,
            duration_ms: None,
            child_loop_id: None,
            timestamp: Timestamp::default(),
        }
    }

    /// An error result that says `text`.
    #[must_use]
    pub fn error(id: ToolCallId, tool: ToolName, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::new(id, tool, vec![Content::text(text)]) }
    }
}

impl Message {
    /// A user message of one text block. Its time is set when it enters a run.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage::new(vec![Content::text(text)], Timestamp::default()))
    }

    /// A user message of these blocks.
    #[must_use]
    pub fn user_content(content: Vec<Content>) -> Self {
        Self::User(UserMessage::new(content, Timestamp::default()))
    }

    /// The blocks.
    #[must_use]
    pub fn content(&self) -> &[Content] {
        match self {
            Self::User(m) => &m.content,
            Self::Assistant(m) => &m.content,
            Self::ToolResult(m) => &m.content,
        }
    }

    /// The text blocks, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        content::joined_text(self.content(), "")
    }

    /// `user`, `assistant` or `toolResult`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolResult(_) => "toolResult",
        }
    }

    /// The reply, if it is one.
    #[must_use]
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Self::Assistant(m) => Some(m),
            Self::User(_) | Self::ToolResult(_) => None,
        }
    }

    /// The tool result, if it is one.
    #[must_use]
    pub fn as_tool_result(&self) -> Option<&ToolResultMessage> {
        match self {
            Self::ToolResult(m) => Some(m),
            Self::User(_) | Self::Assistant(_) => None,
        }
    }

    /// Whether a provider said that the context was too long (REQ-077).
    #[must_use]
    pub fn is_context_overflow(&self) -> bool {
        self.as_assistant().is_some_and(AssistantMessage::is_context_overflow)
    }
}

impl From<AssistantMessage> for Message {
    fn from(message: AssistantMessage) -> Self {
        Self::Assistant(message)
    }
}

impl From<UserMessage> for Message {
    fn from(message: UserMessage) -> Self {
        Self::User(message)
    }
}

impl From<ToolResultMessage> for Message {
    fn from(message: ToolResultMessage) -> Self {
        Self::ToolResult(message)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}
