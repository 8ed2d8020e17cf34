//! What a tool gives back (REQ-010, D40).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::identity::LoopId;
use crate::message::{Content, Usage};

/// What a call gave.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ToolResult {
    /// What the model sees.
    pub content: Vec<Content>,
    /// Structured facts for programs.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Whether the call failed, with something to show for it all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Whether the loop may end here; it does when every result of the reply says so (B-101).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
    /// The loop of a sub-agent that this call ran (REQ-194).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_loop_id: Option<LoopId>,
    /// Tokens that the call itself used at models; they are counted beside those of the loop (D32).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Box<Usage>>,
}

impl ToolResult {
    /// A result of one text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::content(vec![Content::text(text)])
    }

    /// A result of these blocks.
    #[must_use]
    pub fn content(content: Vec<Content>) -> Self {
        Self { content, ..Self::default() }
    }

    /// An error result that says `text`.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// The same result with facts for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The same result, marked as failed.
    #[must_use]
    pub fn failed(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// The same result, after which the loop may end.
    #[must_use]
    pub fn terminating(mut self) -> Self {
        self.terminate = true;
        self
    }

    /// The same result, made by this loop of a sub-agent.
    #[must_use]
    pub fn with_child_loop(mut self, loop_id: LoopId) -> Self {
        self.child_loop_id = Some(loop_id);
        self
    }

    /// The same result, for which the call itself used these tokens at models.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = Some(Box::new(usage));
        self
    }

    /// The text blocks, joined by line ends.
    #[must_use]
    pub fn joined_text(&self) -> String {
        crate::message::content::joined_text(&self.content, "\n")
    }
}

impl From<String> for ToolResult {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for ToolResult {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// The value as JSON text, which the model reads, and as details.
impl From<Value> for ToolResult {
    fn from(value: Value) -> Self {
        Self::text(value.to_string()).with_details(value)
    }
}

impl From<Vec<Content>> for ToolResult {
    fn from(content: Vec<Content>) -> Self {
        Self::content(content)
    }
}

/// Why a call gave nothing. All of it is for the model to see, so that it can do better.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// It did not work.
    #[error("{0}")]
    Failed(String),
    /// There is no such tool.
    #[error("Tool {0} not found")]
    NotFound(String),
    /// The arguments do not fit.
    #[error("{0}")]
    InvalidArgs(String),
    /// The run was aborted.
    #[error("Operation aborted")]
    Cancelled,
    /// It took longer than it may.
    #[error("Tool exceeded timeout of {0:?}")]
    Timeout(Duration),
}

impl ToolError {
    /// It did not work, because of this.
    #[must_use]
    pub fn failed(cause: impl std::fmt::Display) -> Self {
        Self::Failed(cause.to_string())
    }
}

impl From<String> for ToolError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<&str> for ToolError {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}

impl From<std::io::Error> for ToolError {
    fn from(error: std::io::Error) -> Self {
        Self::failed(error)
    }
}

impl From<serde_json::Error> for ToolError {
    fn from(error: serde_json::Error) -> Self {
        Self::failed(error)
    }
}

impl From<ToolError> for ToolResult {
    fn from(error: ToolError) -> Self {
        Self::error(error.to_string())
    }
}
