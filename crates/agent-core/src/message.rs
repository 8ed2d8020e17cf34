//! Messages: content blocks, token usage, stop reasons, and the estimates and error texts that concern them.
//!
//! Messages serialize to the JSON of session files: `role` and `type` are tags, and keys are in camelCase.
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
mod citation;
pub(crate) mod content;
mod deferred;
mod document;
pub mod overflow;
mod text_call;
mod tokens;
mod usage;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use agent_message::{AgentMessage, ExtensionMessage, INSTRUCTIONS_NOTE, LlmMessage};
pub use arguments::{MAX_ARGUMENTS_SHOWN, ToolArguments};
pub use citation::{Citation, CitationSource, CitedPlace, CitedRange, RangeUnit};
pub use content::{Content, ImageContent, OpaqueContent, TextContent, ThinkingContent, ToolCall};
pub use deferred::{DeferredCall, DeferredState};
pub use document::{Citing, DocumentContent, FileSource, MediaContent, SearchResultContent};
pub use tokens::{HeuristicTokenCounter, TokenCounter, content_tokens, estimate_tokens, message_tokens};
pub use usage::{Cost, Usage};

use crate::identity::{DeferredHandle, LoopId, Timestamp, ToolCallId, ToolName};
use crate::model::{ApiProtocol, ModelConfig};
pub use crate::model::{CostConfig, CostTier};
use crate::shared::Shared;
pub use crate::value_depth::has_more_values;

/// The reason for which a model stopped writing its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum StopReason {
    /// The model finished its reply.
    Stop,
    /// The reply reached the output token limit.
    Length,
    /// The model stopped to call tools.
    ToolUse,
    /// The vendor paused an unfinished reply at a limit of one request. A further request continues it.
    Paused,
    /// The call failed; `error_message` describes the failure.
    Error,
    /// The caller aborted the call. The part of the reply that had arrived is stored.
    Aborted,
}

/// A message of a conversation with a model: from the user, from the model, or the result of a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
#[non_exhaustive]
pub enum Message {
    /// A message from the user or the calling program.
    User(UserMessage),
    /// A reply of the model.
    Assistant(AssistantMessage),
    /// The result of a tool call.
    ToolResult(ToolResultMessage),
}

/// A message from the user or the calling program.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UserMessage {
    /// The content blocks, in order.
    pub content: Vec<Content>,
    /// The time at which the message was created.
    #[serde(default)]
    pub timestamp: Timestamp,
    /// The deferred tool call that the message concerns: its result, or the notice that it is still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<Box<DeferredCall>>,
    /// The request that brought the message, as the program names it. A program can find in a stored session whether a
    /// request that is repeated was recorded. The model does not receive it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Box<str>>,
}

/// A reply of a model, complete or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssistantMessage {
    /// The content blocks, in order.
    pub content: Vec<Content>,
    /// The reason for which the reply ended.
    pub stop_reason: StopReason,
    /// The protocol of the call. Together with provider and model it decides which models may receive the
    /// reply's signatures again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<ApiProtocol>,
    /// The name of the provider, as in [`ModelConfig::provider`](crate::ModelConfig::provider).
    pub provider: String,
    /// The id of the model that was called.
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// The tokens used, as far as the provider reported them. All counts are zero if it reported none: the usage of the
    /// reply is then unknown, and a budget counts an estimate.
    pub usage: Usage,
    /// The time at which the reply began.
    #[serde(default)]
    pub timestamp: Timestamp,
    /// The description of the failure, for `Error` and `Aborted`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "error_message")]
    pub error_message: Option<String>,
}

/// The result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultMessage {
    /// The id of the call that this message answers.
    pub tool_call_id: ToolCallId,
    /// The name of the tool.
    pub tool_name: ToolName,
    /// The content that the model receives. The events of the call share it.
    pub content: Shared<Vec<Content>>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Structured data for programs. The model does not receive it.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub details: serde_json::Value,
    /// The execution time in milliseconds; `None` if the tool did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The loop of the sub-agent that this call ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
    /// The handle of the work that continues after the call. The content is then a preliminary result, and a later user
    /// message has the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<DeferredHandle>,
    /// The time at which the call ended.
    #[serde(default)]
    pub timestamp: Timestamp,
}

impl UserMessage {
    /// Creates a user message from content blocks.
    #[must_use]
    pub fn new(content: Vec<Content>, timestamp: Timestamp) -> Self {
        Self { content, timestamp, deferred: None, request_id: None }
    }
}

impl AssistantMessage {
    /// Creates an empty reply of a model that stopped for `stop_reason`.
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

    /// Returns the text blocks, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        content::joined_text(&self.content, "")
    }

    /// Returns the citations of the reply's texts, in order.
    pub fn citations(&self) -> impl Iterator<Item = &Citation> {
        self.content.iter().flat_map(|content| match content {
            Content::Text(text) => text.citations.as_slice(),
            _ => &[],
        })
    }

    /// Returns the tool calls of the reply, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(Content::as_tool_call)
    }

    /// Returns whether the reply ended with `Error` or `Aborted`. A failed reply stays in the history, but no model
    /// receives it again.
    #[must_use]
    pub fn is_failed(&self) -> bool {
        matches!(self.stop_reason, StopReason::Error | StopReason::Aborted)
    }

    /// Returns whether this model wrote the reply: provider, protocol and id are equal.
    #[must_use]
    pub fn is_by(&self, model: &ModelConfig) -> bool {
        self.provider == model.provider && self.model == model.id && self.api == Some(model.api)
    }

    /// Returns whether the error message says that the context was too long for the model.
    #[must_use]
    pub fn is_context_overflow(&self) -> bool {
        self.stop_reason == StopReason::Error
            && self.error_message.as_deref().is_some_and(overflow::is_overflow_text)
    }
}

impl ToolResultMessage {
    /// Creates a successful result for the call `id` of `tool`.
    #[must_use]
    pub fn new(id: ToolCallId, tool: ToolName, content: impl Into<Shared<Vec<Content>>>) -> Self {
        Self {
            tool_call_id: id,
            tool_name: tool,
            content: content.into(),
            is_error: false,
            details: serde_json::Value::Null,
            duration_ms: None,
            child_loop_id: None,
            deferred: None,
            timestamp: Timestamp::default(),
        }
    }

    /// Creates an error result with `text` as its content.
    #[must_use]
    pub fn error(id: ToolCallId, tool: ToolName, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::new(id, tool, vec![Content::text(text)]) }
    }
}

impl Message {
    /// Creates a user message with one text block. Its time is set when it enters a run.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(UserMessage::new(vec![Content::text(text)], Timestamp::default()))
    }

    /// Creates a user message from content blocks. Its time is set when it enters a run.
    #[must_use]
    pub fn user_content(content: Vec<Content>) -> Self {
        Self::User(UserMessage::new(content, Timestamp::default()))
    }

    /// Returns the content blocks.
    #[must_use]
    pub fn content(&self) -> &[Content] {
        match self {
            Self::User(m) => &m.content,
            Self::Assistant(m) => &m.content,
            Self::ToolResult(m) => &m.content,
        }
    }

    /// Returns the text blocks, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        content::joined_text(self.content(), "")
    }

    /// Returns the role: `user`, `assistant` or `toolResult`.
    #[must_use]
    pub fn role(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::ToolResult(_) => "toolResult",
        }
    }

    /// Returns the reply if this is an assistant message.
    #[must_use]
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        match self {
            Self::Assistant(m) => Some(m),
            Self::User(_) | Self::ToolResult(_) => None,
        }
    }

    /// Returns the result if this is a tool result message.
    #[must_use]
    pub fn as_tool_result(&self) -> Option<&ToolResultMessage> {
        match self {
            Self::ToolResult(m) => Some(m),
            Self::User(_) | Self::Assistant(_) => None,
        }
    }

    /// Returns whether this is a failed reply whose error says that the context was too long.
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

impl<T: Into<String>> From<T> for Message {
    fn from(text: T) -> Self {
        Self::user(text)
    }
}
