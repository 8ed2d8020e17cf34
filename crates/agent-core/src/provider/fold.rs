//! Folds a stream of events into a message, on demand, from an append-only log.
//!
//! Adding a delta costs O(its length), and a lookup in an ordered map if the block differs from that of the event before
//! it. A snapshot refers to the log and stores its length, so it costs O(1) and never changes. Reading the content of a
//! log or a snapshot costs O(events + text); reading it at every event is therefore quadratic.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::event::{Completion, StreamEvent};
use super::reply_limit::{MAX_REPLY_BLOCKS, MAX_REPLY_BYTES, MAX_REPLY_CALLS, ReplyLimit};
use crate::identity::ToolCallId;
use crate::message::{
    AssistantMessage, Citation, Content, StopReason, TextContent, ThinkingContent, ToolArguments, ToolCall,
    Usage,
};
use crate::value_depth;

/// The initial capacity of the buffers, in bytes and entries, which avoids copies for a short reply.
const TEXT_CAPACITY: usize = 128;
const ENTRY_CAPACITY: usize = 16;

/// Collects the events of one reply.
#[derive(Default)]
pub struct ReplyLog {
    shared: Arc<Mutex<Log>>,
}

/// Shows figures, without the text.
impl fmt::Debug for ReplyLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = lock(&self.shared);
        f.debug_struct("ReplyLog")
            .field("events", &log.entries.len())
            .field("blocks", &log.places.len())
            .field("bytes", &log.text.len())
            .field("exceeded", &log.exceeded)
            .finish_non_exhaustive()
    }
}

/// The reply as far as it had arrived at one moment. It never changes.
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
    citations: Vec<Citation>,
    /// The approximate size of the values and citations.
    value_bytes: usize,
    /// The place of each block in the order of their first events.
    places: BTreeMap<BlockIndex, u32>,
    /// The block of the last entry, and its place.
    last: Option<(u32, u32)>,
    /// The number of blocks that are tool calls.
    calls: usize,
    exceeded: Option<ReplyLimit>,
    response_id: Option<String>,
    model: Option<String>,
    usage: Usage,
    unrecognised: u64,
}

/// An event: its kind, the place of its block, and the end of its text in the buffer.
#[derive(Debug, Clone, Copy)]
struct Entry {
    kind: Kind,
    place: u32,
    end: usize,
}

/// The index of a block, as the provider numbers it. The tests implement the comparisons and count them.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), derive(PartialEq, Eq, PartialOrd, Ord))]
pub(super) struct BlockIndex(pub(super) u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    TextSignature,
    /// The citation is the next one of `citations`.
    Citation,
    Thinking,
    ThinkingSignature,
    Redacted,
    CallId,
    CallName,
    CallArguments,
    CallSignature,
    /// The text is the kind of the block; the value is the next one of `values`.
    Opaque,
    End,
}

impl Entry {
    fn is_like(&self, other: &Self) -> bool {
        (self.kind, self.place) == (other.kind, other.place)
    }
}

impl Kind {
    /// Returns the kind of the block that an event of this kind opens.
    fn of_block(self) -> Self {
        match self {
            Self::TextSignature | Self::Citation => Self::Text,
            Self::ThinkingSignature => Self::Thinking,
            Self::CallName | Self::CallArguments | Self::CallSignature => Self::CallId,
            other => other,
        }
    }

    /// Returns whether consecutive texts of this kind form one text.
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
    /// Creates an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an event to the log. An event that would exceed a limit of [`ReplyLimit`] is not added, and no content is
    /// added after it; [`exceeded`](Self::exceeded) reports the limit.
    pub fn push(&mut self, event: &StreamEvent<'_>) {
        let _ = self.try_push(event);
    }

    /// Adds an event to the log, or returns the limit that it or an earlier event exceeds.
    pub(crate) fn try_push(&mut self, event: &StreamEvent<'_>) -> Result<(), ReplyLimit> {
        let mut log = lock(&self.shared);
        match *event {
            StreamEvent::Start { response_id, model } => {
                log.response_id = response_id.map(str::to_owned).or(log.response_id.take());
                log.model = model.map(str::to_owned).or(log.model.take());
                // Before its first event a log is empty, because thousands of runs may wait for a reply.
                log.text.reserve(TEXT_CAPACITY);
                log.entries.reserve(ENTRY_CAPACITY);
            }
            StreamEvent::TextStart { index } => log.add(Kind::Text, index, "")?,
            StreamEvent::TextDelta { index, delta } => log.add(Kind::Text, index, delta)?,
            StreamEvent::TextSignature { index, delta } => log.add(Kind::TextSignature, index, delta)?,
            StreamEvent::Citation { index, citation } => log.add_citation(index, citation)?,
            StreamEvent::ThinkingStart { index } => log.add(Kind::Thinking, index, "")?,
            StreamEvent::ThinkingDelta { index, delta } => log.add(Kind::Thinking, index, delta)?,
            StreamEvent::ThinkingSignature { index, delta } => {
                log.add(Kind::ThinkingSignature, index, delta)?;
            }
            StreamEvent::RedactedThinking { index, data } => log.add(Kind::Redacted, index, data)?,
            StreamEvent::ToolCallStart { index, id, name } => {
                log.add(Kind::CallId, index, id)?;
                log.add(Kind::CallName, index, name)?;
            }
            StreamEvent::ToolCallDelta { index, delta } => log.add(Kind::CallArguments, index, delta)?,
            StreamEvent::ToolCallSignature { index, delta } => log.add(Kind::CallSignature, index, delta)?,
            StreamEvent::Opaque { index, kind, data } => {
                log.add_value(index, kind, data)?;
            }
            StreamEvent::ServerTool { call, .. } => log.check_depth(call.input.as_ref())?,
            StreamEvent::BlockEnd { index } => log.add(Kind::End, index, "")?,
            StreamEvent::Usage(usage) => log.usage = usage,
            StreamEvent::Fallback { .. } => {}
            StreamEvent::Unrecognised { .. } => log.unrecognised += 1,
        }
        Ok(())
    }

    /// Returns the limit that the reply exceeded; `None` if it exceeded none. Such a reply is incomplete.
    #[must_use]
    pub fn exceeded(&self) -> Option<ReplyLimit> {
        lock(&self.shared).exceeded
    }

    /// Returns another handle to the same log, not a copy.
    pub(crate) fn shared(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }

    /// Returns the reply so far. Costs O(1).
    #[must_use]
    pub fn snapshot(&self) -> MessageSnapshot {
        let entries = lock(&self.shared).entries.len();
        MessageSnapshot { shared: Arc::clone(&self.shared), entries }
    }

    /// Returns the tokens used, as far as the provider reported them.
    #[must_use]
    pub fn usage(&self) -> Usage {
        lock(&self.shared).usage
    }

    /// Returns the provider's id of the response.
    #[must_use]
    pub fn response_id(&self) -> Option<String> {
        lock(&self.shared).response_id.clone()
    }

    /// Returns the model that answered, if the provider named one.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        lock(&self.shared).model.clone()
    }

    /// Returns how many events this version did not know.
    #[must_use]
    pub fn unrecognised(&self) -> u64 {
        lock(&self.shared).unrecognised
    }

    /// Returns the blocks of a complete reply.
    #[must_use]
    pub fn content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        log.contents(log.entries.len(), Block::complete)
    }

    /// Returns the blocks of a reply that a limit cut, perhaps in the arguments of a call.
    fn cut_content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        log.contents(log.entries.len(), |block| Block { ended: false, ..block }.complete())
    }

    /// Returns the blocks of an interrupted reply. Calls whose end had not arrived are dropped, and so are blocks
    /// without visible content.
    #[must_use]
    pub fn partial_content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        log.contents(log.entries.len(), Block::partial)
    }

    /// Returns the calls that had started and not ended, as far as they had arrived.
    #[must_use]
    pub fn open_calls(&self) -> Vec<ToolCall> {
        let log = lock(&self.shared);
        let open = log.in_order(log.fold(log.entries.len())).filter(|b| !b.ended);
        open.filter_map(Block::complete).filter_map(|c| c.as_tool_call().cloned()).collect()
    }

    /// Returns the complete message. A reply that contains calls has the stop reason `ToolUse`, regardless of what the
    /// vendor reported, unless the output limit cut it.
    #[must_use]
    pub fn finish(&self, provider: &str, requested: &str, completion: &Completion) -> AssistantMessage {
        let content = match completion.stop_reason {
            StopReason::Length => self.cut_content(),
            _ => self.content(),
        };
        let calls = content.iter().any(|c| matches!(c, Content::ToolCall(_)));
        let stop_reason = match completion.stop_reason {
            StopReason::Stop | StopReason::Paused if calls => StopReason::ToolUse,
            StopReason::ToolUse if !calls => StopReason::Stop,
            other => other,
        };
        let mut message = AssistantMessage::new(provider, requested, stop_reason);
        message.content = content;
        message.usage = self.usage();
        message.response_id = self.response_id();
        message
    }
}

impl MessageSnapshot {
    /// Returns the text so far. Costs O(text).
    #[must_use]
    pub fn text(&self) -> String {
        crate::message::content::joined_text(&self.content(), "")
    }

    /// Returns the blocks so far, including unfinished ones. Costs O(content).
    #[must_use]
    pub fn content(&self) -> Vec<Content> {
        let log = lock(&self.shared);
        log.contents(self.entries, Block::complete)
    }

    /// Returns the reply so far as a message. Its stop reason is `Stop`, because none is known yet.
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

/// Shows the size and not the shared log, which may still grow.
impl fmt::Debug for MessageSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSnapshot").field("entries", &self.entries).finish_non_exhaustive()
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
    fn add(&mut self, kind: Kind, index: u32, text: &str) -> Result<(), ReplyLimit> {
        let added = self.try_add(kind, index, text);
        self.exceeded = added.err();
        added
    }

    /// Adds an opaque block.
    fn add_value(&mut self, index: u32, kind: &str, data: &Value) -> Result<(), ReplyLimit> {
        self.reserve(data, 0)?;
        self.add(Kind::Opaque, index, kind)?;
        self.values.push(data.clone());
        Ok(())
    }

    fn add_citation(&mut self, index: u32, citation: &Citation) -> Result<(), ReplyLimit> {
        self.reserve(&citation.data, citation.text_size())?;
        self.add(Kind::Citation, index, "")?;
        self.citations.push(citation.clone());
        Ok(())
    }

    /// Checks a value that is only displayed, because a copy of it recurses.
    fn check_depth(&mut self, shown: Option<&Value>) -> Result<(), ReplyLimit> {
        if shown.is_some_and(value_depth::is_too_deep) {
            self.exceeded = self.exceeded.or(Some(ReplyLimit::Depth));
        }
        self.exceeded.map_or(Ok(()), Err)
    }

    /// Counts the size of a value and of texts beside it. A value is measured before it is copied, because a copy recurses.
    fn reserve(&mut self, data: &Value, texts: usize) -> Result<(), ReplyLimit> {
        self.exceeded.map_or(Ok(()), Err)?;
        let bytes = value_depth::size(data).ok_or(ReplyLimit::Depth);
        let added = bytes.and_then(|bytes| {
            let bytes = self.value_bytes.saturating_add(bytes).saturating_add(texts);
            if bytes > MAX_REPLY_BYTES { Err(ReplyLimit::Bytes) } else { Ok(bytes) }
        });
        match added {
            Ok(bytes) => self.value_bytes = bytes,
            Err(limit) => self.exceeded = Some(limit),
        }
        added.map(drop)
    }

    fn try_add(&mut self, kind: Kind, index: u32, text: &str) -> Result<(), ReplyLimit> {
        self.exceeded.map_or(Ok(()), Err)?;
        if text.len() > MAX_REPLY_BYTES.saturating_sub(self.text.len() + self.value_bytes) {
            return Err(ReplyLimit::Bytes);
        }
        let place = match self.last.filter(|(last, _)| *last == index) {
            Some((_, place)) => place,
            None => match self.places.get(&BlockIndex(index)) {
                Some(place) => *place,
                None if kind == Kind::End => return Ok(()),
                None => self.open(kind, index)?,
            },
        };
        self.last = Some((index, place));
        self.text.push_str(text);
        self.entries.push(Entry { kind, place, end: self.text.len() });
        Ok(())
    }

    /// Adds a block and returns its place.
    fn open(&mut self, kind: Kind, index: u32) -> Result<u32, ReplyLimit> {
        let call = kind.of_block() == Kind::CallId;
        if call && self.calls >= MAX_REPLY_CALLS {
            return Err(ReplyLimit::Calls);
        }
        let place = self.places.len();
        if place >= MAX_REPLY_BLOCKS {
            return Err(ReplyLimit::Blocks);
        }
        self.calls += usize::from(call);
        let place = u32::try_from(place).map_err(|_| ReplyLimit::Blocks)?;
        self.places.insert(BlockIndex(index), place);
        Ok(place)
    }

    /// Returns the blocks of the first `entries` entries, by their places.
    fn fold(&self, entries: usize) -> Vec<Option<Block<'_>>> {
        let mut blocks: Vec<Option<Block<'_>>> = Vec::new();
        let mut start = 0;
        let mut values = self.values.iter();
        let mut citations = self.citations.iter();
        let mut entries = self.entries.iter().take(entries).peekable();
        while let Some(first) = entries.next() {
            // The pieces of a text are usually adjacent in the buffer and are read as one.
            let continues = |next: &&Entry| first.kind.is_piece() && first.is_like(next);
            let entry = std::iter::from_fn(|| entries.next_if(continues)).last().unwrap_or(first);
            let text = self.text.get(start..entry.end).unwrap_or_default();
            start = entry.end;
            let place = usize::try_from(entry.place).unwrap_or(usize::MAX);
            if place == blocks.len() {
                blocks.push(Some(Block::new(entry.kind)));
            }
            let Some(Some(block)) = blocks.get_mut(place) else { continue };
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
                Kind::Citation => block.citations.extend(citations.next().cloned()),
                Kind::End => block.ended = true,
            }
        }
        blocks
    }

    /// Returns folded blocks in the order of their indexes.
    fn in_order<'l>(&self, mut blocks: Vec<Option<Block<'l>>>) -> impl Iterator<Item = Block<'l>> {
        let places = self.places.values().map(|place| usize::try_from(*place).unwrap_or(usize::MAX));
        places.filter_map(move |place| blocks.get_mut(place)?.take())
    }

    /// Builds a new list instead of reusing the memory of the blocks, because a reply is stored as long as its
    /// conversation.
    fn contents<'l>(&'l self, entries: usize, content: fn(Block<'l>) -> Option<Content>) -> Vec<Content> {
        let blocks = self.fold(entries);
        let mut contents = Vec::with_capacity(blocks.len());
        contents.extend(self.in_order(blocks).filter_map(content));
        contents
    }
}

/// Keeps the first non-empty id or name, because some servers send a different one later.
fn replace_unless_empty<'l>(slot: &mut &'l str, text: &'l str) {
    if slot.is_empty() {
        *slot = text;
    }
}

struct Block<'l> {
    kind: Kind,
    text: String,
    signature: Option<String>,
    id: &'l str,
    name: &'l str,
    value: Option<Value>,
    citations: Vec<Citation>,
    ended: bool,
}

impl Block<'_> {
    fn new(kind: Kind) -> Self {
        Self {
            kind: kind.of_block(),
            text: String::new(),
            signature: None,
            id: "",
            name: "",
            value: None,
            citations: Vec::new(),
            ended: false,
        }
    }

    fn complete(self) -> Option<Content> {
        match self.kind {
            Kind::Text => {
                let text =
                    TextContent { text: self.text, signature: self.signature, citations: self.citations };
                (!text.text.is_empty() || text.signature.is_some()).then_some(Content::Text(text))
            }
            Kind::Thinking => {
                (!self.text.is_empty() || self.signature.is_some()).then_some(Content::Thinking(
                    ThinkingContent { thinking: self.text, signature: self.signature, redacted: false },
                ))
            }
            Kind::Redacted => Some(Content::redacted_thinking(self.signature.unwrap_or_default())),
            Kind::CallId => {
                // A call whose end never came has lost a part of its arguments.
                let arguments = if self.ended {
                    ToolArguments::from_text(self.text)
                } else {
                    ToolArguments::cut_short(self.text)
                };
                let call = ToolCall::new(ToolCallId::from(self.id), self.name, arguments);
                Some(Content::ToolCall(call.with_signature(self.signature)))
            }
            Kind::Opaque => Some(Content::opaque(self.name, self.value.unwrap_or_default())),
            Kind::TextSignature
            | Kind::Citation
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
