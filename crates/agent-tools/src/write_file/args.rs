//! What the model sends to `write_file`.

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

/// The arguments of `write_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct WriteFileArgs {
    /// The file.
    pub path: String,
    /// All of its content, written as it is.
    pub content: String,
}

impl WriteFileArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(arguments)
            .map_err(|error| ToolError::InvalidArgs(format!("write_file: {error}")))
    }
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file to write"},
            "content": {"type": "string", "description": "The whole content of the file"}
        },
        "required": ["path", "content"]
    })
}
