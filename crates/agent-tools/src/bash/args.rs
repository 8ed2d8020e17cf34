//! What the model sends to `bash`.

use std::time::Duration;

use agent_core::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::BashError;

/// The arguments of `bash`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct BashArgs {
    /// The command.
    pub command: String,
    /// The longest that it may take, in seconds.
    #[serde(default)]
    pub timeout: Option<u64>,
}

impl BashArgs {
    pub(super) fn parse(arguments: Value) -> Result<Self, ToolError> {
        serde_json::from_value(arguments).map_err(|error| ToolError::InvalidArgs(format!("bash: {error}")))
    }

    /// How long the command may take. More than `max` is refused, not lowered: the model should know.
    pub(super) fn limit(&self, usual: Duration, max: Duration) -> Result<Duration, BashError> {
        match self.timeout.map(Duration::from_secs) {
            None => Ok(usual),
            Some(asked) if !asked.is_zero() && asked <= max => Ok(asked),
            Some(_) => Err(BashError::TimeoutRange { max: max.as_secs() }),
        }
    }
}

pub(super) fn schema(usual: Duration, max: Duration) -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command to run"},
            "timeout": {
                "type": "integer", "minimum": 1,
                "description": format!(
                    "The longest that it may take, in seconds. Default: {}, at most {}",
                    super::output::seconds(usual), super::output::seconds(max)
                )
            }
        },
        "required": ["command"]
    })
}
