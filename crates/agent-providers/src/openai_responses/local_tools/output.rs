//! Converts the results of local tools to the vendor's outputs.

use agent_core::{Content, ToolResultMessage};
use serde_json::{Value, json};

use crate::handoff;

/// The text in the place of an image or a file, which these outputs cannot contain.
pub(super) const NOT_TEXT: &str = "[left out: the output of this tool is text]";

/// The first lines of the results of `bash`. The outcome says the same.
const EXIT: &str = "Exit code: ";
const TIMED_OUT: &str = "Command timed out after ";

/// Returns the text of a result.
pub(super) fn text(content: &[Content]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|content| match content {
            Content::Text(block) => handoff::text(block),
            _ => Some(NOT_TEXT),
        })
        .collect();
    texts.join("\n")
}

/// Returns the output of a command. The exit code and the time-out are in the details of the result; an error without them,
/// such as a refusal, is standard error of a command that failed.
pub(super) fn of_shell(text: &str, result: &ToolResultMessage) -> Value {
    let exit_code = result.details.get("exit_code").and_then(Value::as_i64);
    let timed_out = result.details.get("timed_out").is_some_and(|value| *value == Value::Bool(true))
        || (result.is_error && exit_code.is_none() && text.starts_with(TIMED_OUT));
    let ran = exit_code.is_some() || timed_out;
    let has_head = ran && (text.starts_with(EXIT) || text.starts_with(TIMED_OUT));
    let body = match text.split_once('\n') {
        Some((_, rest)) if has_head => rest,
        None if has_head => "",
        _ => text,
    };
    let both = body.strip_prefix("STDOUT:\n").filter(|_| ran).and_then(|rest| rest.split_once("\nSTDERR:\n"));
    let (stdout, stderr) = match both {
        Some(both) => both,
        None if result.is_error && !ran => ("", body),
        None => (body, ""),
    };
    let outcome = if timed_out {
        json!({"type": "timeout"})
    } else {
        json!({"type": "exit", "exit_code": exit_code.unwrap_or(i64::from(result.is_error))})
    };
    json!({"stdout": stdout, "stderr": stderr, "outcome": outcome})
}
