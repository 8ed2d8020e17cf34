//! What the caller's model sends.

use serde_json::{Value, json};

use super::error::SubAgentError;

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "description": "What is to be done, with everything that has to be known for it: nothing else is passed on.",
            },
        },
        "required": ["task"],
        "additionalProperties": false,
    })
}

/// The task.
pub(super) fn task(arguments: &Value) -> Result<&str, SubAgentError> {
    let task = arguments.get("task").and_then(Value::as_str).ok_or(SubAgentError::NoTask)?;
    if task.trim().is_empty() { Err(SubAgentError::BlankTask) } else { Ok(task) }
}
