//! Deferred tool calls: the call has ended, its work continues, and a later user message has the result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Content, UserMessage};
use crate::identity::{DeferredHandle, Timestamp, ToolCallId, ToolName};

/// A deferred tool call: its tool has returned, but its result comes in a later user message.
///
/// [`History::deferred`](crate::History::deferred) lists the calls of a conversation that wait for a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeferredCall {
    /// The id of the call.
    pub tool_call_id: ToolCallId,
    /// The name of the tool.
    pub tool_name: ToolName,
    /// The handle that the tool gave to its work, for example the id of a job.
    pub handle: DeferredHandle,
    /// Whether the work has ended, and how.
    pub state: DeferredState,
    /// Structured data of the result for programs. The model does not receive it. Null if there is none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
}

/// The state of the work of a deferred tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DeferredState {
    /// The work has not ended, as far as the conversation knows.
    Running,
    /// The work ended with a result.
    Completed,
    /// The work ended with a failure.
    Failed,
}

impl DeferredCall {
    /// Creates a call whose work is running.
    #[must_use]
    pub fn new(
        tool_call_id: impl Into<ToolCallId>,
        tool_name: impl Into<ToolName>,
        handle: impl Into<DeferredHandle>,
    ) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            handle: handle.into(),
            state: DeferredState::Running,
            details: Value::Null,
        }
    }

    /// Creates the user message with the result of the call. Its first block names the tool and the handle for the model;
    /// `content` follows.
    #[must_use]
    pub fn completed(mut self, content: Vec<Content>, is_error: bool, details: Value) -> UserMessage {
        self.state = if is_error { DeferredState::Failed } else { DeferredState::Completed };
        self.details = details;
        let content = std::iter::once(Content::text(self.first_line())).chain(content).collect();
        UserMessage { deferred: Some(Box::new(self)), ..UserMessage::new(content, Timestamp::default()) }
    }

    /// Returns whether this is the result of the call with this id.
    pub(crate) fn ends(&self, id: &ToolCallId) -> bool {
        self.state != DeferredState::Running && self.tool_call_id == *id
    }

    /// Returns the first line of the message with the result. The handle is empty while it is unknown.
    pub(crate) fn first_line(&self) -> String {
        let mut call = format!("`{}`", self.tool_name);
        if !self.handle.as_str().is_empty() {
            call.push_str(&format!(" (handle `{}`)", self.handle));
        }
        match self.state {
            DeferredState::Failed => format!("The call {call} failed:\n"),
            DeferredState::Running | DeferredState::Completed => format!("Result of the call {call}:\n"),
        }
    }

    /// Creates the user message that replaces the exchange of a running call after a compaction.
    pub(crate) fn notice(self, timestamp: Timestamp) -> UserMessage {
        let text = format!(
            "The call `{}` (handle `{}`) is still running. Its result will come in a later message.",
            self.tool_name, self.handle
        );
        UserMessage {
            deferred: Some(Box::new(self)),
            ..UserMessage::new(vec![Content::text(text)], timestamp)
        }
    }
}
