//! A tree of entries, cut into loops.

use serde_json::Value;

use super::HEAD_MARK;
use super::entry::{Entry, text};

/// A loop: entries that follow each other.
#[derive(Default)]
pub(super) struct EntryLoop {
    pub(super) entries: Vec<usize>,
    pub(super) has_message: bool,
}

/// Cuts the tree: a prompt begins a loop, and so do each path but the first that continues from an entry, and the mark that names
/// the entry from which the conversation continues.
pub(super) fn split(entries: &[Entry]) -> (Vec<EntryLoop>, Vec<usize>) {
    let mut strands: Vec<EntryLoop> = Vec::new();
    let mut strand_of: Vec<usize> = Vec::with_capacity(entries.len());
    for (at, entry) in entries.iter().enumerate() {
        let is_message = entry.kind() == "message";
        let is_prompt =
            is_message && entry.value.pointer("/message/role").and_then(Value::as_str) == Some("user");
        let is_head = entry.kind() == "custom" && text(&entry.value, "customType") == HEAD_MARK;
        let going_on = entry.parent.and_then(|p| strand_of.get(p).copied()).filter(|s| {
            if is_head {
                return false;
            }
            let strand = strands.get(*s);
            strand.is_some_and(|s| s.entries.last().copied() == entry.parent && !(is_prompt && s.has_message))
        });
        let place = match going_on {
            Some(place) => place,
            None => {
                strands.push(EntryLoop::default());
                strands.len() - 1
            }
        };
        if let Some(strand) = strands.get_mut(place) {
            strand.entries.push(at);
            strand.has_message |= is_message;
        }
        strand_of.push(place);
    }
    (strands, strand_of)
}
