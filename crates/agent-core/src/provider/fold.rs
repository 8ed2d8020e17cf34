//! From a stream to a message: an append-only log that is folded when somebody wants the whole.
//!
//! A delta costs O(its length): its text is appended to one buffer and its place to a list. A snapshot is the shared
//! log and a length, so it costs O(1) and never changes (D8). Reading the text of a snapshot costs O(the text): a
//! reader that does so at every event is quadratic by its own choice.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::event::{Completion, StreamEvent};
use crate::identity::ToolCallId;
use crate::message::{
    AssistantMessage, Content, StopReason, TextContent, ThinkingContent, ToolArguments, ToolCall, Usage,
};

/// Room for a short reply, in bytes and entries: a text that grows from nothing is copied again and again.
const TEXT_ROOM: usize = 128;
const ENTRY_ROOM: usize = 16;

/// Gathers the events of one reply.
#[derive(Default)]
pub struct ReplyLog {
    shared: Arc<Mutex<Log>>,
}

/// The reply as far as it had arrived at some moment. It never changes.
#[derive(Clone, Default)]
pub struct MessageSnapshot {
    shared: Arc<Mutex<Log>>,
    entries: usize,
}

#[derive(Default)]
struct Log {
    text: String,
    entries: Vec<Entry>,
    values: Vec<Value>,
    response_id: Option<String>,
    model: Option<String>,
    usage: Usage,
    unrecognised: u64,
}

/// What happened, in which block, and where its text ends in the buffer.
#[derive(Clone, Copy)]
struct Entry {
    kind: Kind,
    index: u32,
    end: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    TextSignature,
    Thinking,
    ThinkingSignature,
    Redacted,
    CallId,
    CallName,
    CallArguments,
    CallSignature,
    /// The text is the kind of block; the value is the next of `values`.
    Opaque,
    End,
}

impl Entry {
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.index) == (other.kind, other.index)
    }
}

impl Kind {
    /// Whether its texts are pieces of one.
    fn is_piece(self) -> bool {
        matches!(
            self,
            Self::Text
                | Self::TextSignature
                | Self::Thinking
                | Self::ThinkingSignature
                | Self::CallArguments
                | Self::CallSignature
        )
    }
}

impl ReplyLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event.
    pub fn push(&mut self, event: &StreamEvent<'_>) {
        let mut log = lock(&self.shared);
        match *event {
            StreamEvent::Start { response_id, model } => {
                log.response_id = response_id.map(str::to_owned).or(log.response_id.take());
                log.model = model.map(str::to_owned).or(log.model.take());
                // Before it begins, thousands may wait with nothing but an empty log.
                log.text.reserve(TEXT_ROOM);
                log.entries.reserve(ENTRY_ROOM);
            }
            StreamEvent::TextStart { index } => log.add(Kind::Text, index, ""),
            StreamEvent::TextDelta { index, delta } => log.add(Kind::Text, index, delta),
            StreamEvent::TextSignature { index, delta } => log.add(Kind::TextSignature, index, delta),
            StreamEvent::ThinkingStart { index } => log.add(Kind::Thinking, index, ""),
            StreamEvent::ThinkingDelta { index, delta } => log.add(Kind::Thinking, index, delta),
            StreamEvent::ThinkingSignature { index, delta } => log.add(Kind::ThinkingSignature, index, delta),
            StreamEvent::RedactedThinking { index, data } => log.add(Kind::Redacted, index, data),
            StreamEvent::ToolCallStart { index, id, name } => {
                log.add(Kind::CallId, index, id);
                log.add(Kind::CallName, index, name);
            }
            StreamEvent::ToolCallDelta { index, delta } => log.add(Kind::CallArguments, index, delta),
            StreamEvent::ToolCallSignature { index, delta } => log.add(Kind::CallSignature, index, delta),
            StreamEvent::Opaque { index, kind, data } => {
                log.values.push(data.clone());
                log.add(Kind::Opaque, index, kind);
            }
            StreamEvent::BlockEnd { index } => log.add(Kind::End, index, ""),
            StreamEvent::Usage(usage) => log.usage = usage,
            StreamEvent::Unrecognised { .. } => log.unrecognised += 1,
        }
    }

    /// The same log, not a copy.
    pub(crate) fn shared(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }

    /// The reply so far. O(1).
    #[must_use]
    pub fn snapshot(&self) -> MessageSnapshot {
        let entries = lock(&self.shared).entries.len();
        MessageSnapshot { shared: Arc::clone(&self.shared), entries }
    }

    /// Tokens used as far as the provider said (B-154).
    #[must_use]
    pub fn usage(&self) -> Usage {
        lock(&self.shared).usage
    }

    /// The provider's id of the response.
    #[must_use]
    pub fn response_id(&self) -> Option<String> {
        lock(&self.shared).response_id.clone()
    }

    /// The model that answered, where the provider named one.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        lock(&self.shared).model.clone()
    }

    /// How many events this version did not know.
    #[must_use]
    pub fn unrecognised(&self) -> u64 {
        lock(&self.shared).unrecognised
    }

    /// The blocks of a complete reply.
    #[must_use]
    pub fn content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        contents(log.fold(log.entries.len()), Block::complete)
    }

    /// The blocks of a reply that broke off: calls whose end had not arrived are dropped, and so are blocks without
    /// any visible content (B-063, D3).
    #[must_use]
    pub fn partial_content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        contents(log.fold(log.entries.len()), Block::partial)
    }

    /// The calls that had begun and not ended, as far as they had arrived.
    #[must_use]
    pub fn open_calls(&self) -> Vec<ToolCall> {
        let log = lock(&self.shared);
        let open = log.fold(log.entries.len()).into_iter().filter(|b| !b.ended);
        open.filter_map(Block::complete).filter_map(|c| c.as_tool_call().cloned()).collect()
    }

    /// The complete message of a reply that ended well. A reply that holds calls stopped for them, whatever the vendor
    /// said (B-126), unless it was cut by the output limit.
    #[must_use]
    pub fn finish(&self, provider: &str, asked: &str, completion: &Completion) -> AssistantMessage {
        let content = self.content();
        let calls = content.iter().any(|c| matches!(c, Content::ToolCall(_)));
        let stop_reason = match completion.stop_reason {
            StopReason::Stop if calls => StopReason::ToolUse,
            StopReason::ToolUse if !calls => StopReason::Stop,
            other => other,
        };
        let mut message = AssistantMessage::new(provider, asked, stop_reason);
        message.content = content;
        message.usage = self.usage();
        message.response_id = self.response_id();
        message
    }
}

impl MessageSnapshot {
    /// The text so far. O(its length).
    #[must_use]
    pub fn text(&self) -> String {
        crate::message::content::joined_text(&self.content(), "")
    }

    /// The blocks so far, unfinished ones included. O(their length).
    #[must_use]
    pub fn content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        contents(log.fold(self.entries), Block::complete)
    }

    /// The reply so far as a message. Its stop reason is `Stop`, since none is known.
    #[must_use]
    pub fn to_message(&self) -> AssistantMessage {
        let content = self.content();
        let log = lock(&self.shared);
        let mut message = AssistantMessage::new("", log.model.clone().unwrap_or_default(), StopReason::Stop);
        message.response_id.clone_from(&log.response_id);
        message.content = content;
        message
    }
}

/// Shows how much there is, not the shared log, which may go on growing.
impl fmt::Debug for MessageSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSnapshot").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReplyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyLog")
    }
}

impl PartialEq for MessageSnapshot {
    fn eq(&self, other: &Self) -> bool {
        (self.entries == other.entries && Arc::ptr_eq(&self.shared, &other.shared))
            || self.content() == other.content()
    }
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    fn add(&mut self, kind: Kind, index: u32, text: &str) {
        self.text.push_str(text);
        self.entries.push(Entry { kind, index, end: self.text.len() });
    }

    fn fold(&self, entries: usize) -> Vec<Block<'_>> {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        let mut start = 0;
        let mut values = self.values.iter();
        let mut entries = self.entries.iter().take(entries).peekable();
        while let Some(first) = entries.next() {
            // The pieces of a text mostly stand behind each other, and are taken as one.
            let goes_on = |next: &&Entry| first.kind.is_piece() && first.is_like(next);
            let entry = std::iter::from_fn(|| entries.next_if(goes_on)).last().unwrap_or(first);
            let text = self.text.get(start..entry.end).unwrap_or_default();
            start = entry.end;
            let at = match blocks.iter().rposition(|b| b.index == entry.index) {
                Some(at) => at,
                None if entry.kind == Kind::End => continue,
                None => {
                    blocks.push(Block::new(entry.index, entry.kind));
                    blocks.len() - 1
                }
            };
            let Some(block) = blocks.get_mut(at) else { continue };
            match entry.kind {
                Kind::Text | Kind::Thinking | Kind::CallArguments => block.text.push_str(text),
                Kind::TextSignature | Kind::ThinkingSignature | Kind::CallSignature | Kind::Redacted => {
                    block.signature.get_or_insert_default().push_str(text);
                    if entry.kind == Kind::Redacted {
                        block.kind = Kind::Redacted;
                        block.ended = true;
                    }
                }
                Kind::CallId => replace_unless_empty(&mut block.id, text),
                Kind::CallName => replace_unless_empty(&mut block.name, text),
                Kind::Opaque => {
                    block.name = text;
                    block.value = values.next().cloned();
                    block.ended = true;
                }
                Kind::End => block.ended = true,
            }
        }
        blocks.sort_by_key(|b| b.index);
        blocks
    }
}

/// A list of its own, and not what is left of the blocks' memory: a reply is kept as long as its conversation.
fn contents<'l>(blocks: Vec<Block<'l>>, content: fn(Block<'l>) -> Option<Content>) -> Vec<Content> {
    let mut contents = Vec::with_capacity(blocks.len());
    contents.extend(blocks.into_iter().filter_map(content));
    contents
}

/// The first non-empty id or name stays: some servers send another one with a later piece.
fn replace_unless_empty<'l>(slot: &mut &'l str, text: &'l str) {
    if slot.is_empty() {
        *slot = text;
    }
}

struct Block<'l> {
    index: u32,
    kind: Kind,
    text: String,
    signature: Option<String>,
    id: &'l str,
    name: &'l str,
    value: Option<Value>,
    ended: bool,
}

impl Block<'_> {
    fn new(index: u32, kind: Kind) -> Self {
        let kind = match kind {
            Kind::TextSignature => Kind::Text,
            Kind::ThinkingSignature => Kind::Thinking,
            Kind::CallName | Kind::CallArguments | Kind::CallSignature => Kind::CallId,
            other => other,
        };
        Self {
            index,
            kind,
            text: String::new(),
            signature: None,
            id: "",
            name: "",
            value: None,
            ended: false,
        }
    }

    fn complete(self) -> Option<Content> {
        match self.kind {
            Kind::Text => (!self.text.is_empty() || self.signature.is_some())
                .then_some(Content::Text(TextContent { text: self.text, signature: self.signature })),
            Kind::Thinking => {
                (!self.text.is_empty() || self.signature.is_some()).then_some(Content::Thinking(
                    ThinkingContent { thinking: self.text, signature: self.signature, redacted: false },
                ))
            }
            Kind::Redacted => Some(Content::redacted_thinking(self.signature.unwrap_or_default())),
            Kind::CallId => Some(Content::ToolCall(
                ToolCall::new(ToolCallId::from(self.id), self.name, ToolArguments::from_text(self.text))
                    .with_signature(self.signature),
            )),
            Kind::Opaque => Some(Content::opaque(self.name, self.value.unwrap_or_default())),
            Kind::TextSignature
            | Kind::ThinkingSignature
            | Kind::CallName
            | Kind::CallArguments
            | Kind::CallSignature
            | Kind::End => None,
        }
    }

    fn partial(self) -> Option<Content> {
        match self.kind {
            Kind::Text | Kind::Thinking if self.text.trim().is_empty() => None,
            Kind::CallId if !self.ended || self.name.trim().is_empty() => None,
            _ => self.complete(),
        }
    }
}
