//! Finds positions in JSON text without parsing it: members, elements, and the path to a byte.
//!
//! The text comes from an encoder of this project and is well-formed. Other text yields fewer positions, but never a
//! panic.

use std::fmt::Write as _;
use std::ops::Range;

/// Returns the members of an object: each name and the range of its value.
pub(super) fn members(text: &[u8]) -> Vec<(&[u8], Range<usize>)> {
    let mut found = Vec::new();
    let Some(mut at) = open(text, 0, b'{') else { return found };
    while text.get(at) == Some(&b'"') {
        let Some(name_end) = string_end(text, at) else { break };
        let Some(value) = text.get(name_end).filter(|b| **b == b':').map(|_| skip_space(text, name_end + 1))
        else {
            break;
        };
        let Some(end) = value_end(text, value) else { break };
        if let Some(name) = text.get(at + 1..name_end - 1) {
            found.push((name, value..end));
        }
        at = next(text, end);
    }
    found
}

/// Returns the ranges of the elements of the array at the start of `text`.
pub(super) fn elements(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let Some(mut at) = open(text, 0, b'[') else { return found };
    while let Some(end) = value_end(text, at).filter(|end| *end > at) {
        found.push(at..end);
        if text.get(skip_space(text, end)) != Some(&b',') {
            break;
        }
        at = next(text, end);
    }
    found
}

/// Returns the path to the value that contains this byte of `text`: `[2].input.path`.
pub(super) fn path(text: &[u8], byte: usize) -> String {
    let mut out = String::new();
    let mut base = 0;
    loop {
        let Some(here) = text.get(base..) else { return out };
        let offset = byte.saturating_sub(base);
        let inner = match here.first() {
            Some(b'{') => {
                let members = members(here);
                let found = members.into_iter().find(|(_, value)| offset < value.end);
                found.filter(|(_, value)| offset >= value.start).map(|(name, value)| {
                    let _ = write!(out, ".{}", String::from_utf8_lossy(name));
                    value
                })
            }
            Some(b'[') => {
                let mut elements = elements(here).into_iter().enumerate();
                let found = elements.find(|(_, element)| offset < element.end);
                found.map(|(n, element)| {
                    let _ = write!(out, "[{n}]");
                    element
                })
            }
            _ => None,
        };
        match inner {
            Some(inner) if offset >= inner.start => base += inner.start,
            _ => return out,
        }
    }
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Returns the position after the opening bracket.
fn open(text: &[u8], at: usize, bracket: u8) -> Option<usize> {
    (text.get(at) == Some(&bracket)).then(|| skip_space(text, at + 1))
}

/// Returns the position after the comma that follows.
fn next(text: &[u8], end: usize) -> usize {
    let at = skip_space(text, end);
    if text.get(at) == Some(&b',') { skip_space(text, at + 1) } else { at }
}

/// Returns the position after the string that begins here.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns the position after the value that begins here.
fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => string_end(text, at),
        b'{' | b'[' => {
            let (mut depth, mut at) = (0_usize, at);
            loop {
                match text.get(at)? {
                    b'"' => {
                        at = string_end(text, at)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    b'}' | b']' => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
        }
        _ => {
            let rest = text.get(at..)?;
            let len = rest.iter().take_while(|b| !b",]}".contains(b) && !b.is_ascii_whitespace()).count();
            Some(at + len)
        }
    }
}
