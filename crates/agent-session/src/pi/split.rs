//! Splits a tree of entries into loops.

use serde_json::Value;

use super::HEAD_MARK;
use super::entry::{Entry, text};

/// A loop: a list of consecutive entries.
#[derive(Default)]
pub(super) struct EntryLoop {
    pub(super) entries: Vec<usize>,
    pub(super) has_message: bool,
}

/// Splits the tree. A loop begins at each prompt, at each further path from the same entry, and at the mark of the entry
/// from which the conversation continues.
pub(super) fn split(entries: &[Entry]) -> (Vec<EntryLoop>, Vec<usize>) {
    let mut loops: Vec<EntryLoop> = Vec::new();
    let mut loop_of: Vec<usize> = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let is_message = entry.kind() == "message";
        let is_prompt =
            is_message && entry.value.pointer("/message/role").and_then(Value::as_str) == Some("user");
        let is_head = entry.kind() == "custom" && text(&entry.value, "customType") == HEAD_MARK;
        let going_on = entry.parent.and_then(|p| loop_of.get(p).copied()).filter(|s| {
            if is_head {
                return false;
            }
            let part = loops.get(*s);
            part.is_some_and(|s| s.entries.last().copied() == entry.parent && !(is_prompt && s.has_message))
        });
        let place = match going_on {
            Some(place) => place,
            None => {
                loops.push(EntryLoop::default());
                loops.len() - 1
            }
        };
        if let Some(part) = loops.get_mut(place) {
            part.entries.push(at);
            part.has_message |= is_message;
        }
        loop_of.push(place);
    }
    (loops, loop_of)
}
