//! What only Gemini and Vertex AI need: arguments in pieces, and errors whose details say more than their status.

use agent_core::ErrorKind;
use serde_json::{Map, Value};

/// The arguments that these pieces make. It shares no code with the decoder, so that the two check each other.
pub(super) fn assembled(pieces: &[Value]) -> Value {
    let mut root = Value::Object(Map::new());
    let mut open: Option<String> = None;
    for piece in pieces {
        let path = piece["json_path"].as_str().unwrap_or_default();
        // A pointer of RFC 6901 has the same steps, with slashes between them.
        let pointer = path.trim_start_matches('$').replace(['.', '['], "/").replace(']', "");
        let slot = make(&mut root, &pointer);
        match piece.get("string_value").and_then(Value::as_str) {
            Some(text) if open.as_deref() == Some(path) => {
                *slot = Value::String(format!("{}{text}", slot.as_str().unwrap_or_default()));
            }
            Some(text) => *slot = Value::String(text.to_owned()),
            None => {
                *slot = [piece.get("number_value"), piece.get("bool_value")]
                    .into_iter()
                    .flatten()
                    .find(|v| !v.is_null())
                    .cloned()
                    .unwrap_or_default();
            }
        }
        open = (piece.get("will_continue") == Some(&Value::Bool(true))).then(|| path.to_owned());
    }
    root
}

fn make<'v>(root: &'v mut Value, pointer: &str) -> &'v mut Value {
    pointer.split('/').filter(|step| !step.is_empty()).fold(root, |here, step| match step.parse::<usize>() {
        Ok(at) => {
            if !here.is_array() {
                *here = Value::Array(Vec::new());
            }
            while here.as_array().is_some_and(|list| list.len() <= at) {
                here.as_array_mut().into_iter().for_each(|list| list.push(Value::Null));
            }
            &mut here[at]
        }
        Err(_) => {
            if !here.is_object() {
                *here = Value::Object(Map::new());
            }
            &mut here[step]
        }
    })
}

/// The kind of an error where the details decide. `said` is all of it in lower case.
pub(super) fn error_kind(status: Option<i64>, said: &str) -> Option<ErrorKind> {
    let says = |word: &str| said.contains(word);
    match status {
        Some(429) if says("perday") => Some(ErrorKind::Quota),
        // The text of a minute's limit speaks of the plan too, but says when to come back.
        Some(429) if says("perminute") || says("retrydelay") || says("rate_limit_exceeded") => {
            Some(ErrorKind::RateLimited)
        }
        Some(_) if says("billing_disabled") => Some(ErrorKind::Quota),
        Some(_) if says("api_key_invalid") || says("api key expired") => Some(ErrorKind::Auth),
        // The vendor cancelled it, not our side.
        Some(499) => Some(ErrorKind::Network),
        _ => None,
    }
}
