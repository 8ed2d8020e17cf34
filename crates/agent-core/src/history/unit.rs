//! The unit of a history: a message, a reply with its results, or a failed reply.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::HistoryError;
use crate::identity::ToolCallId;
use crate::message::{AgentMessage, AssistantMessage, Content, Message, ToolResultMessage, message_tokens};
use crate::wire::WireCache;

/// A shared message. A clone increments one reference count. It serializes as the message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageRef(Arc<AgentMessage>);

impl MessageRef {
    /// Wraps a message for sharing.
    #[must_use]
    pub fn new(message: AgentMessage) -> Self {
        Self(Arc::new(message))
    }

    /// Returns whether both refer to the same object.
    #[must_use]
    pub fn same(a: &Self, b: &Self) -> bool {
        Arc::ptr_eq(&a.0, &b.0)
    }

    /// Returns the message, copied if it is shared.
    #[must_use]
    pub fn into_inner(self) -> AgentMessage {
        Arc::unwrap_or_clone(self.0)
    }
}

impl Deref for MessageRef {
    type Target = AgentMessage;

    fn deref(&self) -> &AgentMessage {
        &self.0
    }
}

impl<M: Into<AgentMessage>> From<M> for MessageRef {
    fn from(message: M) -> Self {
        Self::new(message.into())
    }
}

/// A message with its token count, which is determined once when the message enters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    tokens: u64,
    message: MessageRef,
}

impl Entry {
    /// Creates an entry with a known token count.
    #[must_use]
    pub fn new(message: MessageRef, tokens: u64) -> Self {
        Self { tokens, message }
    }

    /// Creates an entry with a known token count, or else with the default estimate.
    pub(crate) fn counted(message: MessageRef, tokens: Option<u64>) -> Self {
        let tokens = tokens.unwrap_or_else(|| message_tokens(&message));
        Self { tokens, message }
    }

    /// Returns the message of the entry.
    #[must_use]
    pub fn message(&self) -> &AgentMessage {
        &self.message
    }

    /// Returns the shared message of the entry.
    #[must_use]
    pub fn shared(&self) -> &MessageRef {
        &self.message
    }

    /// Returns the message for modification, copied if it is shared.
    pub(crate) fn message_mut(&mut self) -> &mut AgentMessage {
        Arc::make_mut(&mut self.message.0)
    }

    /// Returns the token count of the message.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// Uses the default estimate as the token count.
impl From<AgentMessage> for Entry {
    fn from(message: AgentMessage) -> Self {
        Self::from(MessageRef::new(message))
    }
}

/// Uses the default estimate as the token count.
impl From<MessageRef> for Entry {
    fn from(message: MessageRef) -> Self {
        Self::counted(message, None)
    }
}

/// The kind of a [`Unit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitKind {
    /// One user message, note, or reply without calls.
    Message,
    /// A reply and the results of its calls.
    Exchange,
    /// A failed reply, which no model receives.
    Failed,
}

/// A closed piece of history. It is encoded as a whole, once for each target model.
pub struct Unit {
    kind: UnitKind,
    entries: Box<[Entry]>,
    wire: WireCache,
}

/// Shows the kind and the number of messages, without their text.
impl fmt::Debug for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unit")
            .field("kind", &self.kind)
            .field("messages", &self.entries.len())
            .field("wire", &self.wire)
            .finish()
    }
}

impl Unit {
    pub(super) fn single(entry: Entry) -> Self {
        Self { kind: UnitKind::Message, entries: Box::new([entry]), wire: WireCache::default() }
    }

    pub(super) fn failed(entry: Entry) -> Self {
        Self { kind: UnitKind::Failed, entries: Box::new([entry]), wire: WireCache::default() }
    }

    pub(super) fn exchange(reply: Entry, results: Vec<Entry>) -> Result<Self, HistoryError> {
        let Some(message) = reply.message().as_assistant() else {
            return Err(HistoryError::Unpaired { calls: vec![], results: result_ids(&results) });
        };
        if message.is_failed() {
            return Err(HistoryError::WrongMethod(message.stop_reason, "push_failed"));
        }
        if !answers(message, &results) {
            let calls = message.tool_calls().map(|c| c.id.to_string()).collect();
            return Err(HistoryError::Unpaired { calls, results: result_ids(&results) });
        }
        let mut entries = Vec::with_capacity(results.len() + 1);
        entries.push(reply);
        entries.extend(results);
        Ok(Self { kind: UnitKind::Exchange, entries: entries.into(), wire: WireCache::default() })
    }

    /// Returns the kind of the unit.
    #[must_use]
    pub fn kind(&self) -> UnitKind {
        self.kind
    }

    /// Returns the messages of the unit with their token counts.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the first message of the unit.
    #[must_use]
    pub fn first(&self) -> Option<&AgentMessage> {
        self.entries.first().map(Entry::message)
    }

    /// Returns the reply of the unit, if it has one.
    #[must_use]
    pub fn reply(&self) -> Option<&AssistantMessage> {
        self.first().and_then(AgentMessage::as_assistant)
    }

    /// Returns the results of the reply's calls, in order.
    pub fn results(&self) -> impl Iterator<Item = &ToolResultMessage> {
        self.entries.iter().filter_map(|e| e.message().as_llm().and_then(Message::as_tool_result))
    }

    /// Returns the sum of the token counts.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.entries.iter().map(Entry::tokens).fold(0, u64::saturating_add)
    }

    /// Returns the number of pictures that a model receives with the unit.
    pub(super) fn pictures(&self) -> usize {
        let content = |entry: &Entry| match entry.message().as_llm() {
            Some(Message::User(message)) => pictures(&message.content),
            Some(Message::ToolResult(result)) => pictures(&result.content),
            Some(Message::Assistant(_)) | None => 0,
        };
        self.entries.iter().map(content).sum()
    }

    /// Returns the cache of the encoded forms.
    #[must_use]
    pub fn wire(&self) -> &WireCache {
        &self.wire
    }
}

fn pictures(content: &[Content]) -> usize {
    content.iter().filter(|block| matches!(block, Content::Image(_))).count()
}

/// Returns whether the results answer the calls of the reply one to one and in order, and all call ids differ.
fn answers(reply: &AssistantMessage, results: &[Entry]) -> bool {
    let ids = || reply.tool_calls().map(|call| &call.id);
    let answered = results.iter().map(|entry| match entry.message().as_llm() {
        Some(Message::ToolResult(result)) => Some(&result.tool_call_id),
        Some(Message::User(_) | Message::Assistant(_)) | None => None,
    });
    let named = |id: &ToolCallId| !id.as_str().is_empty();
    let distinct = || results.len() == 1 || ids().collect::<BTreeSet<_>>().len() == results.len();
    !results.is_empty() && ids().map(Some).eq(answered) && ids().all(named) && distinct()
}

fn result_ids(results: &[Entry]) -> Vec<String> {
    results
        .iter()
        .map(|e| match e.message().as_llm() {
            Some(Message::ToolResult(r)) => r.tool_call_id.to_string(),
            Some(Message::User(_) | Message::Assistant(_)) | None => String::from("(not a tool result)"),
        })
        .collect()
}
