//! A block of the reply while it arrives.

use agent_core::{EventSink, StreamEvent};
use serde_json::{Map, Value};

use super::Takes;
use crate::rejection::Spoken;
use crate::server_tools::ServerCalls;

/// An open block.
#[derive(Debug)]
pub(super) struct Open {
    /// The vendor's number of the block.
    pub(super) at: u64,
    /// The index of the block in the emitted events.
    pub(super) index: u32,
    pub(super) kind: Kind,
}

/// The kind of a block and its state.
#[derive(Debug)]
pub(super) enum Kind {
    Text,
    Thinking,
    Redacted,
    Call,
    /// A call of the tool whose arguments are the answer, which is emitted as text.
    Answer,
    /// A block of an unknown kind: the member that names the kind, its value so far, and the text of its input.
    Opaque {
        name: String,
        value: Map<String, Value>,
        input: String,
    },
}

/// Creates a block of an unknown kind from its only member. Returns `None` if it has none.
pub(super) fn opaque(json: &str) -> Option<Kind> {
    let members: Map<String, Value> = serde_json::from_str(json).ok()?;
    let (name, value) = members.into_iter().find(|(_, value)| value.is_object())?;
    let Value::Object(value) = value else { return None };
    Some(Kind::Opaque { name, value, input: String::new() })
}

impl Open {
    /// Emits the start of the block.
    pub(super) fn start(&self, id: &str, name: &str, sink: &mut EventSink<'_>) {
        let index = self.index;
        match &self.kind {
            Kind::Text | Kind::Answer => sink(StreamEvent::TextStart { index }),
            Kind::Thinking => sink(StreamEvent::ThinkingStart { index }),
            Kind::Call => sink(StreamEvent::ToolCallStart { index, id, name }),
            Kind::Redacted | Kind::Opaque { .. } => {}
        }
    }

    /// Emits a piece of text. Returns whether the block accepts it.
    pub(super) fn text(&mut self, takes: Takes, delta: &str, sink: &mut EventSink<'_>) -> bool {
        let index = self.index;
        let event = match (&mut self.kind, takes) {
            (Kind::Text, Takes::Text) | (Kind::Answer, Takes::Arguments) => {
                StreamEvent::TextDelta { index, delta }
            }
            (Kind::Thinking, Takes::Thinking) => StreamEvent::ThinkingDelta { index, delta },
            (Kind::Thinking, Takes::Signature) => StreamEvent::ThinkingSignature { index, delta },
            (Kind::Call, Takes::Arguments) => StreamEvent::ToolCallDelta { index, delta },
            (Kind::Opaque { name, input, .. }, Takes::Arguments) if name == "toolUse" => {
                input.push_str(delta);
                return true;
            }
            _ => return false,
        };
        if !delta.is_empty() {
            sink(event);
        }
        true
    }

    /// Applies a delta to a block of an unknown kind. Returns whether the block and the delta are of the same unknown
    /// kind.
    pub(super) fn gather(&mut self, delta: &Map<String, Value>) -> bool {
        let Kind::Opaque { name, value, .. } = &mut self.kind else { return false };
        let Some(change) = delta.get(name.as_str()) else { return false };
        match change {
            Value::Object(members) => members.iter().for_each(|(key, change)| add(value, key, change)),
            // The parts of a tool's result arrive as a list.
            Value::Array(_) => add(value, "content", change),
            _ => {}
        }
        true
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call)
    }

    /// Returns what a reply contains after this block.
    pub(super) fn added_to(&self, spoken: Spoken) -> Spoken {
        if self.is_call() || spoken == Spoken::Calls { Spoken::Calls } else { Spoken::Blocks }
    }

    /// Emits the stored content and then the end of the block.
    pub(super) fn end(self, calls: &mut ServerCalls, sink: &mut EventSink<'_>) {
        let index = self.index;
        if let Kind::Opaque { name, mut value, input } = self.kind {
            if !input.trim().is_empty() {
                match serde_json::from_str(&input) {
                    Ok(input) => {
                        value.insert("input".to_owned(), input);
                    }
                    Err(_) => {
                        sink(StreamEvent::Unrecognised { name: "input of a server tool that is not JSON" });
                    }
                }
            }
            if name == "toolUse" {
                value.entry("input").or_insert_with(|| Value::Object(Map::new()));
            }
            let mut data = Map::new();
            data.insert(name.clone(), Value::Object(value));
            let data = Value::Object(data);
            sink(StreamEvent::Opaque { index, kind: &name, data: &data });
            calls.block(index, &name, &data, sink);
        }
        sink(StreamEvent::BlockEnd { index });
    }
}

/// Applies a member of a delta: text and lists are appended, any other value is replaced.
fn add(value: &mut Map<String, Value>, key: &str, change: &Value) {
    match (value.get_mut(key), change) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
        _ => {
            value.insert(key.to_owned(), change.clone());
        }
    }
}
