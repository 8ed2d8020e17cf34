//! Compares two bodies in the order in which a provider's cache reads them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::json;

/// The minimum number of unchanged bytes after a change within one value that is reported; fewer are only
/// punctuation.
const LEAST_SUFFIX: usize = 64;

/// The role of a member for a cache, in the order in which vendors arrange a prompt. Members that are not part of a
/// prompt (limits, temperature, stop sequences, session ids) have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Tools,
    System,
    Setting,
    Messages,
}

impl Part {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "tools" | "toolConfig" => Self::Tools,
            "system" | "systemInstruction" | "instructions" => Self::System,
            "tool_choice"
            | "thinking"
            | "output_config"
            | "outputConfig"
            | "response_format"
            | "text"
            | "think"
            | "additionalModelRequestFields" => Self::Setting,
            "messages" | "contents" | "input" => Self::Messages,
            _ => return None,
        })
    }
}

/// The position at which two bodies differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BodyDifference {
    pub(super) field: String,
    /// The offset in the new body.
    pub(super) byte: u64,
    pub(super) message: Option<usize>,
    /// The bytes after the break that were also in the old body.
    pub(super) rebilled: u64,
    /// The size of the old prompt in bytes.
    pub(super) prompt: u64,
}

/// One part of the prompt in both bodies; empty if it is missing.
struct Pair<'b> {
    part: Part,
    name: String,
    old: &'b [u8],
    new: &'b [u8],
    /// The offset of the new part in its body.
    start: usize,
}

/// Returns where the new body stops extending the old one; `None` if it extends it, or if nothing after the break was
/// sent before.
pub(super) fn first_difference(old: &[u8], new: &[u8]) -> Option<BodyDifference> {
    let pairs = pairs(old, new);
    let prompt = pairs.iter().map(|p| p.old.len() as u64).sum();
    let (at, offset, message) = pairs.iter().enumerate().find_map(|(n, pair)| {
        let (offset, message) = pair.difference()?;
        Some((n, offset, message))
    })?;
    let pair = pairs.get(at)?;
    let behind = pairs.iter().skip(at + 1).map(Pair::unchanged).sum::<usize>();
    let rebilled = pair.unchanged_after(offset).saturating_add(behind) as u64;
    if rebilled == 0 {
        return None;
    }
    let shown = if pair.new.is_empty() { pair.old } else { pair.new };
    let field = format!("{}{}", pair.name, json::path(shown, offset));
    let byte = pair.start.saturating_add(offset) as u64;
    Some(BodyDifference { field, byte, message, rebilled, prompt })
}

fn pairs<'b>(old: &'b [u8], new: &'b [u8]) -> Vec<Pair<'b>> {
    let slice = |body: &'b [u8], range: &Range<usize>| body.get(range.clone()).unwrap_or_default();
    let before = json::members(old);
    let after = json::members(new);
    let mut pairs: Vec<Pair<'b>> = Vec::new();
    for (name, range) in &after {
        let Some(part) = Part::of(name) else { continue };
        let was = before.iter().find(|(n, _)| n == name).map(|(_, r)| slice(old, r)).unwrap_or_default();
        pairs.push(Pair { part, name: name.clone(), old: was, new: slice(new, range), start: range.start });
    }
    for (name, range) in &before {
        let gone = Part::of(name).filter(|_| !after.iter().any(|(n, _)| n == name));
        let Some(part) = gone else { continue };
        // An inserted part would begin where the next part begins.
        let start = pairs.iter().find(|p| p.part > part).map_or(0, |p| p.start);
        pairs.push(Pair { part, name: name.clone(), old: slice(old, range), new: &[], start });
    }
    pairs.sort_by_key(|p| p.part);
    pairs
}

impl Pair<'_> {
    /// Returns the offset in the new part at which both differ, and the index of the message.
    fn difference(&self) -> Option<(usize, Option<usize>)> {
        if self.old == self.new {
            return None;
        }
        let common = common(self.old, self.new);
        if self.part != Part::Messages {
            return Some((common, None));
        }
        let (old, new) = (json::elements(self.old), json::elements(self.new));
        let same = old
            .iter()
            .zip(&new)
            .take_while(|(a, b)| self.old.get((*a).clone()) == self.new.get((*b).clone()))
            .count();
        // One part extends the other.
        if same == old.len() || same == new.len() {
            return None;
        }
        Some((common, Some(same)))
    }

    /// Returns the bytes that are in both parts, if something before them changed.
    fn unchanged(&self) -> usize {
        if self.old == self.new {
            return self.new.len();
        }
        match self.part {
            Part::Messages | Part::Tools => self.shared_elements(0),
            Part::System | Part::Setting => 0,
        }
    }

    /// Returns the bytes after the offset that are in both parts.
    fn unchanged_after(&self, offset: usize) -> usize {
        let rest = |text: &'_ [u8]| text.len().saturating_sub(offset);
        match self.part {
            Part::Messages | Part::Tools if self.new.starts_with(b"[") => {
                let inside = json::elements(self.new).into_iter().find(|e| e.contains(&offset));
                let was = json::elements(self.old).into_iter().find(|e| e.contains(&offset));
                let within = match (inside, was) {
                    (Some(new), Some(old)) => {
                        let (a, b) = (self.old.get(offset..old.end), self.new.get(offset..new.end));
                        suffix(a.unwrap_or_default(), b.unwrap_or_default())
                    }
                    _ => 0,
                };
                within.saturating_add(self.shared_elements(offset))
            }
            _ => {
                let most = rest(self.old).min(rest(self.new));
                let (a, b) = (self.old.get(offset..), self.new.get(offset..));
                suffix(a.unwrap_or_default(), b.unwrap_or_default()).min(most)
            }
        }
    }

    /// Returns the bytes of the elements after the offset that are also in the old list after it.
    fn shared_elements(&self, offset: usize) -> usize {
        let behind = |text: &[u8]| -> Vec<Range<usize>> {
            json::elements(text).into_iter().filter(|e| e.start >= offset).collect()
        };
        let old: BTreeSet<&[u8]> = behind(self.old).into_iter().filter_map(|e| self.old.get(e)).collect();
        behind(self.new)
            .into_iter()
            .filter_map(|e| self.new.get(e))
            .filter(|element| old.contains(element))
            .map(<[u8]>::len)
            .sum()
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the number of equal bytes at the end, if they are more than punctuation.
fn suffix(a: &[u8], b: &[u8]) -> usize {
    let same = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    if same >= LEAST_SUFFIX { same } else { 0 }
}
