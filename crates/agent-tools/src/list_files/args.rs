//! What the model sends to `list_files`.

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

/// The arguments of `list_files`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ListFilesArgs {
    /// The folder; `.` is the workspace.
    #[serde(default = "here")]
    pub path: String,
    /// Which files: a glob for the name or, with a `/` in it, for the path below the folder.
    #[serde(default)]
    pub pattern: Option<String>,
    /// How many folders deep; 0 counts as 1.
    #[serde(default)]
    pub max_depth: Option<usize>,
}

fn here() -> String {
    ".".to_owned()
}

impl ListFilesArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(arguments)
            .map_err(|error| ToolError::InvalidArgs(format!("list_files: {error}")))
    }
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The folder to list. Default: ."},
            "pattern": {
                "type": "string",
                "description": "Only files that fit this glob, for example *.rs or src/**/*.{ts,tsx}"
            },
            "max_depth": {
                "type": "integer", "minimum": 1,
                "description": "How many folders deep to look; 1 is the folder itself. Default: 3"
            }
        }
    })
}
