//! One item of the output, from its first event to its last.

use agent_core::{EventSink, StreamEvent};
use serde_json::{Map, Value};

use super::parts::{List, Parts, Said, Slot};
use crate::annotation;
use crate::openai_responses::local_tools::LocalCall;
use crate::openai_responses::wire::{Part, Spoken};
use crate::openai_responses::{marks, search};
use crate::server_tools::ServerCalls;

/// Arguments that some servers send before the real ones.
pub(super) const EMPTY_ARGUMENTS: &[&str] = &["{}", "null", "\"\""];

/// An item of the output.
#[derive(Debug)]
pub(super) struct Item {
    /// The number of the item in the output.
    pub(super) at: u64,
    /// The vendor's id of the item, which may be empty.
    pub(super) id: String,
    /// Whether the last event of the item has been seen.
    pub(super) done: bool,
    pub(super) kind: Kind,
}

/// The kind of an item and its state.
#[derive(Debug)]
pub(super) enum Kind {
    /// A message. Each part of its text is a block.
    Message { texts: Parts },
    /// Thinking. Each text is a block, and the stored rest of the item is another block.
    Reasoning { index: u32, texts: Parts, seal: Seal },
    /// A call of a tool.
    Call(Call),
    /// Any other item; its last event contains it completely.
    Opaque { index: u32 },
}

/// The encrypted form of thinking. The vendor encrypts it again in its last event, and its own client uses that form, so it
/// is emitted at the end of the reply.
#[derive(Debug, Default)]
pub(super) struct Seal {
    encrypted: String,
    /// The block that contains it if there is no text.
    index: Option<u32>,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) index: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) said: Said,
    /// The arguments of the first event of the item, which apply if no other event has any.
    pub(super) announced: Option<Box<str>>,
    /// Whether the last event of the item had no arguments either, so that those of the response may follow.
    pub(super) awaits_arguments: bool,
    /// The vendor's own form of the call, if it has one.
    pub(super) local: Option<LocalCall>,
}

/// Numbers the blocks of a reply.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: u32,
}

impl Numbers {
    pub(super) fn fresh(&mut self) -> u32 {
        let index = self.next;
        self.next = self.next.saturating_add(1);
        index
    }

    /// Returns the number of blocks.
    pub(super) fn count(&self) -> u32 {
        self.next
    }
}

impl Kind {
    /// Returns whether the last event of such an item contains it completely, whatever its other events contain.
    pub(super) fn is_whole_at_end(&self) -> bool {
        matches!(self, Self::Opaque { .. } | Self::Call(Call { local: Some(_), .. }))
    }

    /// Returns whether items of the type `name` are of this kind.
    pub(super) fn is(&self, name: &str) -> bool {
        match self {
            Self::Message { .. } => name == "message",
            Self::Reasoning { .. } => name == "reasoning",
            Self::Call(Call { local: Some(local), .. }) => name == local.form.kind(),
            Self::Call(_) => matches!(name, "function_call" | "custom_tool_call" | search::CALL),
            Self::Opaque { .. } => {
                !matches!(name, "message" | "reasoning" | "function_call" | "custom_tool_call")
            }
        }
    }
}

impl Item {
    /// Emits a piece of text in its block. Returns the position of the block, or `None` if the item has no text.
    pub(super) fn say(
        &mut self,
        list: List,
        at: u64,
        delta: &str,
        numbers: &mut Numbers,
        sink: &mut EventSink<'_>,
    ) -> Option<usize> {
        let (Kind::Message { texts } | Kind::Reasoning { texts, .. }) = &mut self.kind else { return None };
        if delta.is_empty() {
            return None;
        }
        let slot = texts.slot(list, at);
        Some(self.emit(slot, list, at, delta, numbers, sink))
    }

    /// Emits a text at its place and returns the position of its block.
    fn emit(
        &mut self,
        slot: Slot,
        list: List,
        at: u64,
        text: &str,
        numbers: &mut Numbers,
        sink: &mut EventSink<'_>,
    ) -> usize {
        let thinks = matches!(self.kind, Kind::Reasoning { .. });
        let place = match (slot, &mut self.kind) {
            (Slot::New, Kind::Message { texts } | Kind::Reasoning { texts, .. }) => {
                let index = numbers.fresh();
                sink(if thinks {
                    StreamEvent::ThinkingStart { index }
                } else {
                    StreamEvent::TextStart { index }
                });
                texts.open(list, at, index)
            }
            (Slot::Of(place), _) => place,
            (Slot::New, _) => 0,
        };
        self.more(place, text, sink);
        place
    }

    /// Emits a piece of the block at this position, or of a call. Returns whether there is one.
    pub(super) fn more(&mut self, place: usize, delta: &str, sink: &mut EventSink<'_>) -> bool {
        let event = match &mut self.kind {
            Kind::Message { texts } => {
                texts.push(place, delta).map(|index| StreamEvent::TextDelta { index, delta })
            }
            Kind::Reasoning { texts, .. } => {
                texts.push(place, delta).map(|index| StreamEvent::ThinkingDelta { index, delta })
            }
            Kind::Call(Call { index, said, .. }) => {
                said.push(delta);
                Some(StreamEvent::ToolCallDelta { index: *index, delta })
            }
            Kind::Opaque { .. } => None,
        };
        let Some(event) = event else { return false };
        if !delta.is_empty() {
            sink(event);
        }
        true
    }

    /// Records that the server has announced a part of the item.
    pub(super) fn announce(&mut self, list: List) {
        if let Kind::Message { texts } | Kind::Reasoning { texts, .. } = &mut self.kind {
            texts.announce(list);
        }
    }

    /// Emits the part of a whole text that has not been emitted yet.
    pub(super) fn fill(
        &mut self,
        list: List,
        at: u64,
        whole: &str,
        numbers: &mut Numbers,
        sink: &mut EventSink<'_>,
    ) {
        let (Kind::Message { texts } | Kind::Reasoning { texts, .. }) = &mut self.kind else { return };
        if let Some((slot, rest)) = texts.whole(list, at, whole) {
            let place = self.emit(slot, list, at, rest, numbers, sink);
            if let Kind::Message { texts } | Kind::Reasoning { texts, .. } = &mut self.kind {
                texts.end(place);
            }
        }
    }

    /// Emits the part of the whole arguments of a call that has not been emitted yet.
    pub(super) fn fill_call(&mut self, whole: &str, sink: &mut EventSink<'_>) {
        let Kind::Call(call) = &self.kind else { return };
        // An empty value is followed by the arguments, and the reader of the arguments leaves it out.
        let is_empty = EMPTY_ARGUMENTS.iter().any(|text| call.said.is(text));
        let rest = call.said.rest(whole).or_else(|| is_empty.then_some(whole));
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            self.more(0, rest, sink);
        }
    }

    /// Ends a call that has waited for its arguments. Returns whether it has.
    pub(super) fn end_waiting_call(&mut self, arguments: &str, sink: &mut EventSink<'_>) -> bool {
        let Kind::Call(call) = &mut self.kind else { return false };
        if !std::mem::take(&mut call.awaits_arguments) {
            return false;
        }
        let index = call.index;
        self.fill_call(arguments, sink);
        sink(StreamEvent::BlockEnd { index });
        true
    }

    /// Emits a piece of a call in the vendor's own form. Returns whether the item is one.
    pub(super) fn local_piece(&mut self, command: u64, delta: &str, sink: &mut EventSink<'_>) -> bool {
        let Kind::Call(Call { local: Some(local), .. }) = &mut self.kind else { return false };
        if let Some(piece) = local.piece(command, delta) {
            self.more(0, &piece, sink);
        }
        true
    }

    /// Emits the text of the whole parts that did not arrive in pieces.
    pub(super) fn fill_parts(
        &mut self,
        list: List,
        parts: &[Part<'_>],
        numbers: &mut Numbers,
        sink: &mut EventSink<'_>,
    ) {
        let (Kind::Message { texts } | Kind::Reasoning { texts, .. }) = &self.kind else { return };
        let mut at = texts.next_at(list);
        for (slot, rest) in texts.rests(list, parts) {
            self.emit(slot, list, at, rest, numbers, sink);
            at = at.saturating_add(1);
        }
    }

    /// Ends the blocks. `whole` is the JSON of the item's last event and `spoken` its parsed form.
    pub(super) fn end(
        &mut self,
        spoken: &Spoken<'_>,
        whole: Map<String, Value>,
        numbers: &mut Numbers,
        sink: &mut EventSink<'_>,
    ) {
        self.done = true;
        match &mut self.kind {
            Kind::Message { texts } => {
                let mark = marks::of_message(&self.id, spoken.phase.as_str());
                for (index, part) in texts.with_parts(spoken.content.as_deref().unwrap_or_default()) {
                    for data in part.annotations() {
                        sink(StreamEvent::Citation { index, citation: &annotation::read(data) });
                    }
                }
                for index in texts.blocks().map(|block| block.index) {
                    if let Some(delta) = mark.as_deref() {
                        sink(StreamEvent::TextSignature { index, delta });
                    }
                    sink(StreamEvent::BlockEnd { index });
                }
            }
            Kind::Reasoning { index, texts, seal } => {
                let summary = spoken.summary.as_deref().unwrap_or_default();
                let content = spoken.content.as_deref().unwrap_or_default();
                let kept = marks::of_reasoning(whole, &texts.texts(summary, content));
                let data = Value::Object(kept);
                sink(StreamEvent::Opaque { index: *index, kind: marks::REASONING, data: &data });
                sink(StreamEvent::BlockEnd { index: *index });
                spoken.encrypted_content.as_str().clone_into(&mut seal.encrypted);
                if texts.is_empty() && !seal.encrypted.is_empty() {
                    seal.index = Some(numbers.fresh());
                }
            }
            Kind::Call(call) => {
                if let Some(delta) = marks::of_call(whole) {
                    sink(StreamEvent::ToolCallSignature { index: call.index, delta: &delta });
                }
                if !call.awaits_arguments {
                    sink(StreamEvent::BlockEnd { index: call.index });
                }
            }
            Kind::Opaque { index } => {
                let name = whole.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                let data = Value::Object(whole);
                sink(StreamEvent::Opaque { index: *index, kind: &name, data: &data });
                ServerCalls::end_item(*index, &data, sink);
                sink(StreamEvent::BlockEnd { index: *index });
            }
        }
    }

    /// Replaces the encrypted form by a later one.
    pub(super) fn reseal(&mut self, encrypted: &str) {
        if let Kind::Reasoning { seal, .. } = &mut self.kind
            && !encrypted.is_empty()
        {
            encrypted.clone_into(&mut seal.encrypted);
        }
    }

    /// Ends the texts of completed thinking, the last one with the encrypted form.
    pub(super) fn seal(&mut self, numbers: &mut Numbers, sink: &mut EventSink<'_>) {
        let Kind::Reasoning { texts, seal, .. } = &mut self.kind else { return };
        let delta = std::mem::take(&mut seal.encrypted);
        let texts = std::mem::take(texts);
        let last = texts.blocks().next_back().map(|text| text.index).or(seal.index.take());
        if !delta.is_empty() {
            let index = last.unwrap_or_else(|| numbers.fresh());
            sink(StreamEvent::ThinkingSignature { index, delta: &delta });
            if texts.is_empty() {
                sink(StreamEvent::BlockEnd { index });
            }
        }
        for text in texts.blocks() {
            sink(StreamEvent::BlockEnd { index: text.index });
        }
    }
}
