//! Limits the nesting of JSON values that come from outside.
//!
//! Serializing, cloning, comparing and dropping a [`Value`] recurse once per level, so a value that is nested deeply enough
//! overflows the stack and ends the process. `serde_json` reads at most 128 levels, but a provider or a tool can build a
//! deeper value, and a stored message is itself some levels deep. Values are therefore limited where they enter.

use serde_json::Value;

/// The maximum number of nested lists and objects of a JSON value in a message: tool arguments, details of results, opaque
/// blocks, extension messages. A deeper value is rejected or omitted where it enters.
pub const MAX_VALUE_DEPTH: usize = 64;

/// The text that replaces an omitted value.
pub(crate) const OMITTED: &str = "[omitted: the value is nested deeper than 64 levels]";

/// The number of bytes that each value is counted with, in addition to its text.
const VALUE_BYTES: usize = 32;

/// The maximum number of values in the arguments of a tool call, lists and objects included. A value takes up to 32 times as
/// much memory as its text.
pub const MAX_ARGUMENT_VALUES: usize = 250_000;

/// Returns whether a JSON text can hold more than [`MAX_ARGUMENT_VALUES`] values, without parsing it.
pub(crate) fn has_too_many_values(text: &str) -> bool {
    // Each value but the last has at least one byte and a separator.
    text.len() >= 2 * MAX_ARGUMENT_VALUES && starts_of_values(text.as_bytes()) > MAX_ARGUMENT_VALUES
}

/// Counts the characters outside of strings that can begin a further value.
fn starts_of_values(mut rest: &[u8]) -> usize {
    let mut count = 1;
    loop {
        let Some(quote) = memchr::memchr(b'"', rest) else { return count + separators(rest) };
        let (before, string) = rest.split_at(quote);
        count += separators(before);
        let mut inside = string.get(1..).unwrap_or_default();
        loop {
            match memchr::memchr2(b'"', b'\\', inside) {
                None => return count,
                Some(at) => {
                    let is_end = inside.get(at) == Some(&b'"');
                    inside = inside.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
                    if is_end {
                        break;
                    }
                }
            }
        }
        rest = inside;
    }
}

fn separators(bytes: &[u8]) -> usize {
    memchr::memchr3_iter(b',', b'[', b'{', bytes).count()
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
        dismantle(std::mem::replace(value, Value::from(OMITTED)));
    }
}
