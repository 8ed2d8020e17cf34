//! A block of the reply while it arrives.

use agent_core::{EventSink, StreamEvent};
use serde_json::{Map, Value};

use super::Takes;
use crate::anthropic::{citation, extras, wire};
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
    /// A call. `input` holds the arguments of its start event, which apply only if no delta brings others.
    Call {
        input: Option<Box<str>>,
        /// The other members of the call.
        mark: Option<String>,
    },
    /// A call of the tool whose arguments are the answer, which is emitted as text.
    Answer {
        input: Option<Box<str>>,
    },
    /// A block of an unknown kind, with its members. `partial` is the text of its input so far.
    Opaque {
        name: String,
        value: Map<String, Value>,
        partial: String,
    },
}

/// Returns the kind of the block that begins with this head.
pub(super) fn kind_of(head: &wire::Block<'_>, json: &str, response_tool: Option<&str>) -> Kind {
    let input =
        || head.input.map(serde_json::value::RawValue::get).filter(|raw| !is_empty(raw)).map(Box::from);
    match head.kind.as_str() {
        "text" => Kind::Text,
        "thinking" => Kind::Thinking,
        "redacted_thinking" => Kind::Redacted,
        "tool_use" if response_tool.is_some_and(|t| t == head.name.as_str()) => {
            Kind::Answer { input: input() }
        }
        "tool_use" => Kind::Call { input: input(), mark: extras::of_call(json) },
        name => Kind::Opaque {
            name: name.to_owned(),
            // It has been parsed as a block before, so it is an object.
            value: serde_json::from_str(json).unwrap_or_default(),
            partial: String::new(),
        },
    }
}

/// Returns whether arguments are empty. The vendor begins every streamed call with an empty object.
fn is_empty(raw: &str) -> bool {
    let inner = raw.strip_prefix('{').and_then(|r| r.strip_suffix('}'));
    raw == "null" || inner.is_some_and(|i| i.trim().is_empty())
}

impl Open {
    /// Emits the start of the block.
    pub(super) fn start(&self, head: &wire::Block<'_>, sink: &mut EventSink<'_>) {
        let index = self.index;
        match &self.kind {
            Kind::Text => {
                sink(StreamEvent::TextStart { index });
                if let Some(delta) = head.text.filled() {
                    sink(StreamEvent::TextDelta { index, delta });
                }
                // A stream has them as deltas.
                let listed: Option<Vec<Value>> =
                    head.citations.and_then(|list| serde_json::from_str(list.get()).ok());
                for data in listed.unwrap_or_default() {
                    sink(StreamEvent::Citation { index, citation: &citation::read(data) });
                }
            }
            Kind::Thinking => {
                sink(StreamEvent::ThinkingStart { index });
                if let Some(delta) = head.thinking.filled() {
                    sink(StreamEvent::ThinkingDelta { index, delta });
                }
                if let Some(delta) = head.signature.filled() {
                    sink(StreamEvent::ThinkingSignature { index, delta });
                }
            }
            Kind::Redacted => sink(StreamEvent::RedactedThinking { index, data: head.data.as_str() }),
            Kind::Call { mark, .. } => {
                sink(StreamEvent::ToolCallStart { index, id: head.id.as_str(), name: head.name.as_str() });
                if let Some(delta) = mark {
                    sink(StreamEvent::ToolCallSignature { index, delta });
                }
            }
            Kind::Answer { .. } => sink(StreamEvent::TextStart { index }),
            Kind::Opaque { .. } => {}
        }
    }

    /// Emits or stores a delta. `json` is the text of its event.
    pub(super) fn delta(&mut self, delta: &wire::Delta<'_>, json: &str, sink: &mut EventSink<'_>) {
        let index = self.index;
        match (&mut self.kind, delta.kind.as_str()) {
            (Kind::Text, "text_delta") => {
                self.text(Takes::Text, delta.text.as_str(), sink);
            }
            (Kind::Text, name @ "citations_delta") => {
                let whole = serde_json::from_str::<wire::WholeDelta>(json).ok();
                match whole.and_then(|mut whole| whole.delta.remove("citation")) {
                    Some(data) => sink(StreamEvent::Citation { index, citation: &citation::read(data) }),
                    None => sink(StreamEvent::Unrecognised { name }),
                }
            }
            (Kind::Thinking, "thinking_delta") => {
                self.text(Takes::Thinking, delta.thinking.as_str(), sink);
            }
            (Kind::Thinking, "signature_delta") => {
                if let Some(delta) = delta.signature.filled() {
                    sink(StreamEvent::ThinkingSignature { index, delta });
                }
            }
            (Kind::Call { .. } | Kind::Answer { .. }, "input_json_delta") => {
                self.text(Takes::Arguments, delta.partial_json.as_str(), sink);
            }
            (Kind::Opaque { partial, .. }, "input_json_delta") => {
                partial.push_str(delta.partial_json.as_str());
            }
            (Kind::Opaque { value, .. }, name) => match serde_json::from_str::<wire::WholeDelta>(json) {
                Ok(whole) => gather(value, whole.delta),
                Err(_) => sink(StreamEvent::Unrecognised { name }),
            },
            (_, name) => sink(StreamEvent::Unrecognised { name }),
        }
    }

    /// Emits a piece of text. Returns whether the block accepts it.
    pub(super) fn text(&mut self, takes: Takes, delta: &str, sink: &mut EventSink<'_>) -> bool {
        let index = self.index;
        let event = match (&mut self.kind, takes) {
            (Kind::Text, Takes::Text) => StreamEvent::TextDelta { index, delta },
            (Kind::Thinking, Takes::Thinking) => StreamEvent::ThinkingDelta { index, delta },
            (Kind::Call { input, .. }, Takes::Arguments) => {
                input.take_if(|_| !delta.is_empty());
                StreamEvent::ToolCallDelta { index, delta }
            }
            (Kind::Answer { input }, Takes::Arguments) => {
                input.take_if(|_| !delta.is_empty());
                StreamEvent::TextDelta { index, delta }
            }
            _ => return false,
        };
        if !delta.is_empty() {
            sink(event);
        }
        true
    }

    pub(super) fn is_call(&self) -> bool {
        matches!(self.kind, Kind::Call { .. })
    }

    /// Returns what a reply contains after this block.
    pub(super) fn added_to(&self, spoken: Spoken) -> Spoken {
        if self.is_call() || spoken == Spoken::Calls { Spoken::Calls } else { Spoken::Blocks }
    }

    /// Emits the stored content and then the end of the block.
    pub(super) fn end(self, calls: &mut ServerCalls, sink: &mut EventSink<'_>) {
        let index = self.index;
        match self.kind {
            Kind::Text | Kind::Thinking | Kind::Redacted => {}
            Kind::Call { input, .. } => {
                if let Some(input) = input {
                    sink(StreamEvent::ToolCallDelta { index, delta: &input });
                }
            }
            Kind::Answer { input } => {
                if let Some(input) = input {
                    sink(StreamEvent::TextDelta { index, delta: &input });
                }
            }
            Kind::Opaque { name, mut value, partial } => {
                if !partial.trim().is_empty() {
                    match serde_json::from_str(&partial) {
                        Ok(input) => {
                            value.insert("input".to_owned(), input);
                        }
                        Err(_) => sink(StreamEvent::Unrecognised {
                            name: "input of a server tool that is not JSON",
                        }),
                    }
                }
                let data = Value::Object(value);
                sink(StreamEvent::Opaque { index, kind: &name, data: &data });
                calls.block(index, &name, &data, sink);
            }
        }
        sink(StreamEvent::BlockEnd { index });
    }
}

/// Applies a delta to a block like the vendor's client: a citation is added to the list, a text is appended, and any
/// other member is set.
fn gather(block: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (key, change) in delta {
        match (key.as_str(), change) {
            ("type", _) | (_, Value::Null) => {}
            ("citation", citation) => match block.get_mut("citations") {
                Some(Value::Array(list)) => list.push(citation),
                _ => {
                    block.insert("citations".to_owned(), Value::Array(vec![citation]));
                }
            },
            (_, Value::String(more)) => match block.get_mut(&key) {
                Some(Value::String(text)) => text.push_str(&more),
                _ => {
                    block.insert(key, Value::String(more));
                }
            },
            (_, other) => {
                block.insert(key, other);
            }
        }
    }
}
