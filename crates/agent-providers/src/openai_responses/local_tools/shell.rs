//! Converts the vendor's commands to the arguments of `bash`, and back.

use serde_json::{Value, json};

use super::escaped;

/// The beginning of the arguments, up to the text of the command.
pub(super) const OPENING: &str = r#"{"command":""#;

/// The separator of the commands of one call. They run in one shell, one after the other, also if one of them fails.
pub(super) const BETWEEN: &str = "\n";

/// Returns the arguments: the commands, and the time limit in whole seconds.
pub(super) fn arguments(action: &Value) -> Option<String> {
    let commands: Vec<&str> =
        action.get("commands")?.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let command = escaped(&commands.join(BETWEEN));
    let limit = action.get("timeout_ms").and_then(Value::as_u64);
    let limit = limit.map(|ms| format!(r#","timeout":{}"#, ms.div_ceil(1_000).max(1)));
    Some(format!(r#"{OPENING}{command}"{}}}"#, limit.unwrap_or_default()))
}

/// Returns the commands of arguments that have no other member than a command and a time limit.
pub(super) fn action(arguments: &Value) -> Option<Value> {
    let members = arguments.as_object()?;
    let command = members.get("command")?.as_str()?;
    let mut limit = None;
    for (name, value) in members {
        match name.as_str() {
            "command" => {}
            "timeout" if value.is_null() => {}
            "timeout" => limit = Some(value.as_u64()?.checked_mul(1_000)?),
            _ => return None,
        }
    }
    Some(match limit {
        None => json!({"commands": [command]}),
        Some(limit) => json!({"commands": [command], "timeout_ms": limit}),
    })
}
