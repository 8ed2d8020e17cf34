//! Finds positions in JSON text: members, elements, and the path to a byte.
//!
//! The text comes from an encoder of this project. A text that is not JSON has no positions.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::value::RawValue;

/// Returns the members of an object in their order: each name and the range of its value.
pub(super) fn members(text: &[u8]) -> Vec<(String, Range<usize>)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(text).unwrap_or_default();
    let mut found: Vec<_> = members.into_iter().map(|(name, value)| (name, range(text, value))).collect();
    found.sort_by_key(|(_, range)| range.start);
    found
}

/// Returns the ranges of the elements of an array.
pub(super) fn elements(text: &[u8]) -> Vec<Range<usize>> {
    let elements: Vec<&RawValue> = serde_json::from_slice(text).unwrap_or_default();
    elements.into_iter().map(|value| range(text, value)).collect()
}

/// Returns the range of a value that borrows from `text`.
fn range(text: &[u8], value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start.saturating_add(value.get().len())
}

/// Returns the path to the value that contains this byte of `text`: `[2].input.path`.
pub(super) fn path(text: &[u8], byte: usize) -> String {
    let (mut path, mut here) = (String::new(), 0..text.len());
    loop {
        let value = text.get(here.clone()).unwrap_or_default();
        let offset = byte.saturating_sub(here.start);
        let inner = if value.first() == Some(&b'{') {
            let member = members(value).into_iter().find(|(_, range)| offset < range.end);
            member.filter(|(_, range)| offset >= range.start).map(|(name, range)| (format!(".{name}"), range))
        } else {
            let element = elements(value).into_iter().enumerate().find(|(_, range)| offset < range.end);
            element.map(|(n, range)| (format!("[{n}]"), range))
        };
        let Some((step, inner)) = inner else { return path };
        path.push_str(&step);
        if offset < inner.start {
            return path;
        }
        here = here.start + inner.start..here.start + inner.end;
    }
}
