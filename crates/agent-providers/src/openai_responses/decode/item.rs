//! One item of the output, from its first event to its last.

use agent_core::{EventSink, StreamEvent};
use serde_json::{Map, Value};

use crate::openai_responses::marks;
use crate::openai_responses::wire::{Part, Spoken};

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
    Message { texts: Vec<Block> },
    /// Thinking. Each text is a block, and the stored rest of the item is another block.
    Reasoning { index: u32, texts: Vec<Block>, seal: Seal },
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
}

/// A text of an item, which is one block.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) list: List,
    /// The position in the list.
    pub(super) at: u64,
    pub(super) index: u32,
    pub(super) said: Said,
}

/// The list of an item that contains a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Summary,
    Content,
}

/// The part of a text that has been emitted: its length, and a hash to check that a longer text begins with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    len: usize,
    hash: u64,
}

impl Default for Said {
    fn default() -> Self {
        Self { len: 0, hash: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Said {
    pub(super) fn push(&mut self, text: &str) {
        self.len = self.len.saturating_add(text.len());
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Returns the part of the whole text that has not been emitted, or `None` if the whole begins differently.
    pub(super) fn rest<'t>(&self, whole: &'t str) -> Option<&'t str> {
        let (head, rest) = whole.split_at_checked(self.len)?;
        let mut said = Self::default();
        said.push(head);
        (said.hash == self.hash && !rest.is_empty()).then_some(rest)
    }
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
        let thinks = matches!(self.kind, Kind::Reasoning { .. });
        let (Kind::Message { texts } | Kind::Reasoning { texts, .. }) = &mut self.kind else { return None };
        let place = match texts.iter().position(|t| t.list == list && t.at == at) {
            Some(place) => place,
            None if delta.is_empty() => return None,
            None => {
                let index = numbers.fresh();
                sink(if thinks {
                    StreamEvent::ThinkingStart { index }
                } else {
                    StreamEvent::TextStart { index }
                });
                texts.push(Block { list, at, index, said: Said::default() });
                texts.len() - 1
            }
        };
        self.more(place, delta, sink).then_some(place)
    }

    /// Emits a piece of the block at this position, or of a call. Returns whether there is one.
    pub(super) fn more(&mut self, place: usize, delta: &str, sink: &mut EventSink<'_>) -> bool {
        let (said, event) = match &mut self.kind {
            Kind::Message { texts } => match texts.get_mut(place) {
                Some(Block { index, said, .. }) => (said, StreamEvent::TextDelta { index: *index, delta }),
                None => return false,
            },
            Kind::Reasoning { texts, .. } => match texts.get_mut(place) {
                Some(Block { index, said, .. }) => {
                    (said, StreamEvent::ThinkingDelta { index: *index, delta })
                }
                None => return false,
            },
            Kind::Call(Call { index, said, .. }) => {
                (said, StreamEvent::ToolCallDelta { index: *index, delta })
            }
            Kind::Opaque { .. } => return false,
        };
        if !delta.is_empty() {
            said.push(delta);
            sink(event);
        }
        true
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
        let (Kind::Message { texts } | Kind::Reasoning { texts, .. }) = &self.kind else { return };
        let said = texts.iter().find(|t| t.list == list && t.at == at).map_or(Said::default(), |t| t.said);
        if let Some(rest) = said.rest(whole) {
            self.say(list, at, rest, numbers, sink);
        }
    }

    /// Emits the part of the whole arguments of a call that has not been emitted yet.
    pub(super) fn fill_call(&mut self, whole: &str, sink: &mut EventSink<'_>) {
        if let Kind::Call(call) = &self.kind
            && let Some(rest) = call.said.rest(whole)
        {
            self.more(0, rest, sink);
        }
    }

    /// Emits the text of the whole parts that did not arrive in pieces.
    pub(super) fn fill_parts(
        &mut self,
        list: List,
        parts: &[Part<'_>],
        numbers: &mut Numbers,
        sink: &mut EventSink<'_>,
    ) {
        for (at, part) in (0..).zip(parts) {
            self.fill(list, at, part.text.as_str(), numbers, sink);
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
                for Block { index, .. } in texts {
                    if let Some(delta) = mark.as_deref() {
                        sink(StreamEvent::TextSignature { index: *index, delta });
                    }
                    sink(StreamEvent::BlockEnd { index: *index });
                }
            }
            Kind::Reasoning { index, texts, seal } => {
                let kept = marks::of_reasoning(whole, &texts_of(texts, spoken));
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
                sink(StreamEvent::BlockEnd { index: call.index });
            }
            Kind::Opaque { index } => {
                let name = whole.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                sink(StreamEvent::Opaque { index: *index, kind: &name, data: &Value::Object(whole) });
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
        let last = texts.last().map(|text| text.index).or(seal.index.take());
        if !delta.is_empty() {
            let index = last.unwrap_or_else(|| numbers.fresh());
            sink(StreamEvent::ThinkingSignature { index, delta: &delta });
            if texts.is_empty() {
                sink(StreamEvent::BlockEnd { index });
            }
        }
        for text in texts {
            sink(StreamEvent::BlockEnd { index: text.index });
        }
    }
}

/// Returns the texts of the blocks, in their order, as the whole item has them. A text that differs from the
/// emitted one is returned as empty, so that the item is stored with its own text.
fn texts_of<'s>(blocks: &[Block], spoken: &'s Spoken<'_>) -> Vec<&'s str> {
    let text = |block: &Block| {
        let list = match block.list {
            List::Summary => spoken.summary.as_deref(),
            List::Content => spoken.content.as_deref(),
        };
        let part = list.and_then(|list| list.get(usize::try_from(block.at).ok()?))?;
        let mut said = Said::default();
        said.push(part.text.as_str());
        (said.len == block.said.len && said.hash == block.said.hash).then_some(part.text.as_str())
    };
    blocks.iter().map(|block| text(block).unwrap_or_default()).collect()
}
