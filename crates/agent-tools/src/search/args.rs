//! What the model sends to `search`.

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

/// The arguments of `search`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct SearchArgs {
    /// The regular expression, in the syntax of Rust's `regex`.
    pub pattern: String,
    /// The folder or file; `.` is the workspace.
    #[serde(default = "here")]
    pub path: String,
    /// Which files: a glob for the name or, with a `/` in it, for the path below the folder.
    #[serde(default)]
    pub include: Option<String>,
    /// Whether `a` and `A` are different.
    #[serde(default)]
    pub case_sensitive: bool,
}

fn here() -> String {
    ".".to_owned()
}

impl SearchArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(arguments).map_err(|error| ToolError::InvalidArgs(format!("search: {error}")))
    }
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The regular expression to look for"},
            "path": {"type": "string", "description": "The folder or file to search. Default: ."},
            "include": {
                "type": "string",
                "description": "Only files that fit this glob, for example *.rs or src/**/*.{ts,tsx}"
            },
            "case_sensitive": {
                "type": "boolean",
                "description": "Whether upper and lower case differ. Default: false"
            }
        },
        "required": ["pattern"]
    })
}
