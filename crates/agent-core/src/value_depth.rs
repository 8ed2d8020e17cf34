//! Limits the nesting of JSON values that come from outside.
//!
//! Serializing, cloning, comparing and dropping a [`Value`] recurse once per level, so a value that is nested deeply enough
//! overflows the stack and ends the process. `serde_json` reads at most 128 levels, but a provider or a tool can build a
//! deeper value, and a stored message is itself some levels deep. Values are therefore limited where they enter.

use serde_json::Value;

/// The maximum number of nested lists and objects of a JSON value in a message: tool arguments, details of results, opaque
/// blocks, extension messages. A deeper value is rejected or omitted where it enters.
pub const MAX_VALUE_DEPTH: usize = 64;

/// Returns the text that replaces an omitted value.
pub(crate) fn omitted() -> String {
    format!("[omitted: {}]", too_deep())
}

/// Returns the error of a value that is nested too deeply.
pub(crate) fn too_deep() -> String {
    format!("the value is nested deeper than {MAX_VALUE_DEPTH} levels")
}

/// The number of bytes that each value is counted with, in addition to its text.
const VALUE_BYTES: usize = 32;

/// The maximum number of values in the arguments of a tool call, lists and objects included. A value takes up to 32 times as
/// much memory as its text.
pub const MAX_ARGUMENT_VALUES: usize = 250_000;

/// Returns whether a JSON text has more than `max` values, without parsing it. Lists, objects and what they contain count,
/// and the names of members do not; an empty list or object counts as two. Takes time linear in the text, and none if the
/// text is too short for so many values.
///
/// ```
/// use agent_core::message::has_more_values;
/// assert!(has_more_values(br#"[1, "a, b", 2]"#, 3));
/// assert!(!has_more_values(br#"[1, "a, b", 2]"#, 4));
/// ```
#[must_use]
pub fn has_more_values(json: &[u8], max: usize) -> bool {
    // A value has at least one byte, and so has what precedes it.
    if json.len() / 2 < max {
        return false;
    }
    // Each value but the first one follows a comma or the beginning of a list or an object.
    let mut values = 1_usize;
    let mut rest = json;
    while let Some(quote) = memchr::memchr(b'"', rest) {
        let (before, string) = rest.split_at(quote);
        values = values.saturating_add(separators(before));
        if values > max {
            return true;
        }
        rest = string.get(1..).unwrap_or_default();
        loop {
            let Some(place) = memchr::memchr2(b'"', b'\\', rest) else { return false };
            let is_escape = rest.get(place) == Some(&b'\\');
            rest = rest.get(place + 1 + usize::from(is_escape)..).unwrap_or_default();
            if !is_escape {
                break;
            }
        }
    }
    values.saturating_add(separators(rest)) > max
}

fn separators(json: &[u8]) -> usize {
    memchr::memchr3_iter(b',', b'[', b'{', json).count()
}

/// Returns the approximate size of a value in memory, or `None` if it is nested deeper than [`MAX_VALUE_DEPTH`].
pub(crate) fn size(value: &Value) -> Option<usize> {
    size_within(value, MAX_VALUE_DEPTH)
}

/// Returns whether a value is nested deeper than [`MAX_VALUE_DEPTH`].
pub(crate) fn is_too_deep(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => size(value).is_none(),
        _ => false,
    }
}

/// The recursion ends at `depth` 0.
fn size_within(value: &Value, depth: usize) -> Option<usize> {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => {
            let depth = depth.checked_sub(1)?;
            items.iter().try_fold(0_usize, |sum, item| Some(sum.saturating_add(size_within(item, depth)?)))?
        }
        Value::Object(members) => {
            let depth = depth.checked_sub(1)?;
            members.iter().try_fold(0_usize, |sum, (name, member)| {
                Some(sum.saturating_add(name.len()).saturating_add(size_within(member, depth)?))
            })?
        }
    };
    Some(inner.saturating_add(VALUE_BYTES))
}

/// Drops a value of any depth without recursion.
pub(crate) fn dismantle(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.into_iter().map(|(_, member)| member)),
            _ => {}
        }
    }
}

/// Returns the JSON text of a value; an empty text for one that is nested too deeply to be written.
pub(crate) fn text(value: &Value) -> String {
    if is_too_deep(value) { String::new() } else { value.to_string() }
}

/// Replaces a value that is nested too deeply by a note.
pub(crate) fn limit(value: &mut Value) {
    if is_too_deep(value) {
        dismantle(std::mem::replace(value, Value::from(omitted())));
    }
}
