//! Arguments that arrive in pieces: each piece is a value or a part of a string, with a JSON path.
//!
//! The vendor sends pieces only if the request asks for them, which a request hook can do. The paths have no fixed
//! order, so the call is emitted when it is complete.

#[cfg(test)]
mod tests;

use agent_core::{ErrorContext, ErrorKind, EventSink, ProviderError, StreamEvent};
use serde_json::{Map, Value};

use crate::google::wire::PartialArg;
use crate::json::Text;

/// The maximum number of steps of a path.
const MAX_DEPTH: usize = 64;

/// How far beyond the end of a list a place may be; the places between are null.
const MAX_GAP: usize = 16;

/// The maximum size of the arguments of one call, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// The size of a value beyond its text, in bytes: about that of an object with one member.
const PER_VALUE: usize = 256;

/// An open call.
#[derive(Debug)]
pub(super) struct Arguments {
    index: u32,
    value: Option<Value>,
    /// The text that the next piece may continue.
    growing: Option<String>,
    bytes: usize,
}

/// A step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    At(usize),
}

impl Arguments {
    /// Creates the call of this block with the arguments of its start.
    pub(super) fn new(index: u32, args: Option<&str>) -> Self {
        let value = args.and_then(|a| serde_json::from_str(a).ok()).filter(Value::is_object);
        Self { index, value, growing: None, bytes: 0 }
    }

    /// Puts pieces in their places.
    ///
    /// # Errors
    /// Returns an error if a value has no valid path or there are too many, because a call with missing arguments must
    /// not run.
    pub(super) fn add(&mut self, pieces: &[PartialArg<'_>]) -> Result<(), ProviderError> {
        pieces.iter().try_for_each(|piece| self.put(piece).ok_or_else(|| misplaced(piece)))
    }

    fn put(&mut self, piece: &PartialArg<'_>) -> Option<()> {
        let path = piece.json_path.as_str();
        let continues = self.growing.take().is_some_and(|growing| growing == path);
        let steps = steps(path)?;
        let text = piece.string_value.as_ref().map(Text::as_str);
        let mut made = 0;
        let slot = place(self.value.get_or_insert_with(|| Value::Object(Map::new())), &steps, &mut made)?;
        let room = text.map_or(0, str::len).saturating_add(made * PER_VALUE);
        self.bytes = self.bytes.saturating_add(room);
        if self.bytes > MAX_BYTES {
            return None;
        }
        match text {
            Some(text) => {
                match slot {
                    Value::String(so_far) if continues => so_far.push_str(text),
                    slot => *slot = Value::String(text.to_owned()),
                }
                self.growing = piece.will_continue.then(|| path.to_owned());
            }
            None => {
                let number = piece.number_value.clone().filter(Value::is_number);
                *slot = number.or(piece.bool_value.map(Value::Bool)).unwrap_or(Value::Null);
            }
        }
        Some(())
    }

    /// Emits the complete arguments.
    pub(super) fn end(self, sink: &mut EventSink<'_>) {
        let index = self.index;
        if let Some(value) = self.value {
            sink(StreamEvent::ToolCallDelta { index, delta: &value.to_string() });
        }
        sink(StreamEvent::BlockEnd { index });
    }
}

fn misplaced(piece: &PartialArg<'_>) -> ProviderError {
    let path: String = piece.json_path.as_str().chars().take(100).collect();
    let context = ErrorContext::new(format!("a piece of a call's arguments has no place there: {path:?}"));
    ProviderError::new(ErrorKind::Network, context)
}

/// Returns the value at the end of the path and creates missing ones; `made` counts them.
fn place<'v>(root: &'v mut Value, steps: &[Step], made: &mut usize) -> Option<&'v mut Value> {
    let mut here = root;
    for step in steps {
        here = match step {
            Step::Key(key) => {
                if !here.is_object() {
                    *here = Value::Object(Map::new());
                }
                here.as_object_mut()?.entry(key.clone()).or_insert_with(|| {
                    *made += 1;
                    Value::Null
                })
            }
            Step::At(at) => {
                if !here.is_array() {
                    *here = Value::Array(Vec::new());
                }
                let list = here.as_array_mut()?;
                if *at > list.len().saturating_add(MAX_GAP) {
                    return None;
                }
                if list.len() <= *at {
                    *made = made.saturating_add(at.saturating_add(1) - list.len());
                    list.resize(at.saturating_add(1), Value::Null);
                }
                list.get_mut(*at)?
            }
        };
    }
    Some(here)
}

/// The steps of `$.a.b[0]['c']`; at least one.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() >= MAX_DEPTH {
            return None;
        }
        if let Some(name) = rest.strip_prefix('.') {
            let end = name.find(['.', '[']).unwrap_or(name.len());
            let (key, after) = name.split_at_checked(end)?;
            if key.is_empty() {
                return None;
            }
            steps.push(Step::Key(key.to_owned()));
            rest = after;
            continue;
        }
        let inner = rest.strip_prefix('[')?;
        let quote = inner.chars().next()?;
        if matches!(quote, '\'' | '"') {
            let (key, after) = quoted(inner.get(1..)?, quote)?;
            steps.push(Step::Key(key));
            rest = after.strip_prefix(']')?;
        } else {
            let (number, after) = inner.split_once(']')?;
            steps.push(Step::At(number.parse().ok()?));
            rest = after;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

/// Reads a key up to its closing quote. A backslash escapes a quote or a backslash.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut key = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.push(chars.next()?.1),
            c if c == quote => return Some((key, text.get(at + c.len_utf8()..)?)),
            c => key.push(c),
        }
    }
    None
}
