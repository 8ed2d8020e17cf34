//! What the model sends to `read_file`.

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

/// The arguments of `read_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ReadFileArgs {
    /// The file.
    pub path: String,
    /// The first line, counted from 1; 0 counts as 1.
    #[serde(default)]
    pub offset: Option<u64>,
    /// The most lines, at least 1.
    #[serde(default)]
    pub limit: Option<u64>,
}

impl ReadFileArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(arguments)
            .map_err(|error| ToolError::InvalidArgs(format!("read_file: {error}")))
    }

    /// Whether the whole file is asked for.
    pub(super) fn is_whole(&self) -> bool {
        self.offset.is_none() && self.limit.is_none()
    }
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file to read"},
            "offset": {
                "type": "integer", "minimum": 1,
                "description": "The first line to read, counted from 1. Default: 1"
            },
            "limit": {
                "type": "integer", "minimum": 1,
                "description": "The most lines to read. Default: all"
            }
        },
        "required": ["path"]
    })
}
