//! The calls of the vendor's own tools, as they are displayed.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call of one of the vendor's own tools, which the vendor executes during the reply. It is for display only: the blocks
/// that are stored and sent back contain the call and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerToolCall {
    /// The vendor's id of the call, which its start and its end share. Empty if the vendor gives none.
    pub id: String,
    /// The vendor's name of the tool, for example `web_search`. `mcp` for the tools of MCP servers.
    pub tool: String,
    /// Whether the call started or ended.
    pub state: ServerToolState,
    /// What the model passed to the tool, in the vendor's form, for example `{"query": "rust 2027"}`. `None` if it is not
    /// known at this moment; some vendors report it only at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Whether the call failed. Only known at the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// The state of a call of the vendor's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ServerToolState {
    /// The vendor begins to execute the call.
    Started,
    /// The call has a result.
    Ended,
}

impl ServerToolCall {
    /// Creates the start of a call.
    #[must_use]
    pub fn started(id: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            tool: tool.into(),
            state: ServerToolState::Started,
            input: None,
            is_error: false,
        }
    }

    /// Creates the end of a call.
    #[must_use]
    pub fn ended(id: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { state: ServerToolState::Ended, ..Self::started(id, tool) }
    }

    /// Sets what the model passed to the tool.
    #[must_use]
    pub fn with_input(mut self, input: Option<Value>) -> Self {
        self.input = input;
        self
    }

    /// Sets whether the call failed.
    #[must_use]
    pub fn with_error(mut self, is_error: bool) -> Self {
        self.is_error = is_error;
        self
    }
}
