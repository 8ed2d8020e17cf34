//! What the model sends to `read_output`.

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DEFAULT_PAGE_BYTES, MAX_PAGE_BYTES, ReadOutputError};

/// The arguments of `read_output`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ReadOutputArgs {
    /// The key of the output.
    pub key: String,
    /// The first byte, counted from 0; a negative one counts from the end.
    #[serde(default)]
    pub offset: i64,
    /// The most bytes.
    #[serde(default)]
    pub limit: Option<u64>,
}

impl ReadOutputArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(arguments)
            .map_err(|error| ToolError::InvalidArgs(format!("read_output: {error}")))
    }

    pub(super) fn page_bytes(&self) -> Result<usize, ReadOutputError> {
        match self.limit {
            None => Ok(DEFAULT_PAGE_BYTES),
            Some(0) => Err(ReadOutputError::NoBytes),
            Some(limit) => Ok(usize::try_from(limit).unwrap_or(usize::MAX).min(MAX_PAGE_BYTES)),
        }
    }
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "key": {"type": "string", "description": "The key that the cut result names, for example out-1"},
            "offset": {
                "type": "integer",
                "description": "The first byte to show, from 0; a negative one counts from the end. Default: 0"
            },
            "limit": {
                "type": "integer", "minimum": 1,
                "description": format!("The most bytes to show. Default: {DEFAULT_PAGE_BYTES}, at most {MAX_PAGE_BYTES}")
            }
        },
        "required": ["key"]
    })
}
