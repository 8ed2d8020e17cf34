//! The conversation: an immutable, structurally shared list in which a call without its result cannot be written.
//!
//! An append gives a longer list and leaves every clone as it was; a clone costs O(1) (D7). Only closed units enter:
//! a message without calls, a reply together with the results of all its calls
//! ([`push_exchange`](History::push_exchange)), or a failed reply whose calls are inert
//! ([`push_failed`](History::push_failed)). Lists from elsewhere enter through [`History::repaired`], which says
//! what it had to change.
//!
//! ```
//! use agent_core::{AgentMessage, AssistantMessage, Content, History, Message, StopReason};
//! let mut history = History::new();
//! history.push(AgentMessage::user("What is in src?"))?;
//! let before = history.clone();
//!
//! let mut reply = AssistantMessage::new("anthropic", "claude", StopReason::ToolUse);
//! reply.content.push(Content::tool_call("call_1", "list_files", serde_json::json!({"path": "src"})));
//! assert!(history.push(Message::from(reply).into()).is_err(), "a call cannot enter without its result");
//! assert_eq!((before.len(), history.len()), (1, 1));
//! # Ok::<(), agent_core::HistoryError>(())
//! ```

mod chunk;
mod joined;
mod repair;
mod splice;
mod unit;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use repair::{ORPHAN_RESULT, Repair};
pub use splice::{Splice, SpliceError};
pub use unit::{Entry, MessageRef, Unit, UnitKind};

use crate::message::{AgentMessage, AssistantMessage, Message};
use crate::wire::{Encoded, WireKey};
use chunk::Chunk;

/// A closed conversation. See the [module documentation](self).
#[derive(Clone)]
pub struct History {
    tail: Arc<Chunk>,
}

/// A message was given to the wrong door of a [`History`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A reply with calls came alone.
    #[error(
        "a reply with {0} open tool call(s) cannot enter the history without their results; use push_exchange"
    )]
    OpenCalls(usize),
    /// A result came alone.
    #[error("the result of call {0:?} cannot enter the history without its call; use push_exchange")]
    BareResult(String),
    /// A failed reply came through the door of good ones, or the reverse.
    #[error("a reply that ended {0:?} enters the history by {1}")]
    WrongDoor(crate::message::StopReason, &'static str),
    /// Calls and results do not match one to one, in order.
    #[error(
        "the results do not answer the reply's calls one to one and in order: calls {calls:?}, results {results:?}"
    )]
    Unpaired {
        /// Ids of the calls.
        calls: Vec<String>,
        /// Ids of the results.
        results: Vec<String>,
    },
}

impl History {
    /// An empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A conversation from a list made elsewhere. Calls without a result get one that says so, results without a
    /// call are left out, an empty or repeated call id is replaced (B-136..B-138). Each change is reported.
    pub fn repaired(messages: impl IntoIterator<Item = impl Into<Entry>>) -> (Self, Vec<Repair>) {
        repair::repaired(messages.into_iter().map(Into::into))
    }

    /// Like [`repaired`](Self::repaired), but keeps the units of `self` where the list goes on with the same
    /// messages (the same objects), so that their encoded forms are kept, too.
    pub fn rebuilt(&self, messages: impl IntoIterator<Item = MessageRef>) -> (Self, Vec<Repair>) {
        repair::rebuilt(self, messages.into_iter())
    }

    /// Appends a user message, a note, or a finished reply without calls.
    ///
    /// # Errors
    /// When the message is a reply with calls, a failed reply or a bare tool result.
    pub fn push(&mut self, message: AgentMessage) -> Result<(), HistoryError> {
        self.push_entry(Entry::from(message))
    }

    /// Like [`push`](Self::push), with the message's token count.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_entry(&mut self, entry: Entry) -> Result<(), HistoryError> {
        Self::may_enter_alone(&entry)?;
        self.append(Unit::single(entry));
        Ok(())
    }

    /// Whether [`push_entry`](Self::push_entry) would take it; no history has anything to say about it.
    pub(crate) fn may_enter_alone(entry: &Entry) -> Result<(), HistoryError> {
        match entry.message().as_llm() {
            Some(Message::Assistant(reply)) => {
                if reply.is_failed() {
                    return Err(HistoryError::WrongDoor(reply.stop_reason, "push_failed"));
                }
                let calls = reply.tool_calls().count();
                if calls > 0 {
                    return Err(HistoryError::OpenCalls(calls));
                }
                Ok(())
            }
            Some(Message::ToolResult(result)) => {
                Err(HistoryError::BareResult(result.tool_call_id.to_string()))
            }
            Some(Message::User(_)) | None => Ok(()),
        }
    }

    /// Appends a reply together with the results of its calls, one for each call and in the order of the calls.
    ///
    /// # Errors
    /// When they do not match, or the reply failed.
    pub fn push_exchange(&mut self, reply: Entry, results: Vec<Entry>) -> Result<(), HistoryError> {
        let unit = Unit::exchange(reply, results)?;
        self.append(unit);
        Ok(())
    }

    /// Appends a reply that ended `Error` or `Aborted`. It is kept for people; no model sees it (B-139).
    ///
    /// # Errors
    /// When the reply did not fail.
    pub fn push_failed(&mut self, reply: Entry) -> Result<(), HistoryError> {
        match reply.message().as_llm().and_then(Message::as_assistant) {
            Some(r) if r.is_failed() => {
                self.append(Unit::failed(reply));
                Ok(())
            }
            Some(r) => Err(HistoryError::WrongDoor(r.stop_reason, "push or push_exchange")),
            None => Err(HistoryError::WrongDoor(crate::message::StopReason::Stop, "push")),
        }
    }

    pub(crate) fn append(&mut self, unit: Unit) {
        self.append_shared(Arc::new(unit));
    }

    pub(crate) fn append_shared(&mut self, unit: Arc<Unit>) {
        chunk::append(&mut self.tail, unit);
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.messages()
    }

    /// Whether there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the messages' token counts.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tail.tokens()
    }

    /// The units, oldest first.
    pub fn units(&self) -> impl Iterator<Item = &Arc<Unit>> {
        chunk::units(&self.tail)
    }

    /// Calls `read` with the encoded forms of the units, oldest first. Those that are not there are made by `make` and
    /// kept beside their units. A form has to be a list of JSON values with commas between them, or empty, and to depend on
    /// nothing but the unit and `key`: then what is old is read in pieces of many units, each as one such list.
    ///
    /// ```
    /// use agent_core::{AgentMessage, Encoded, History, WireKey};
    /// let mut history = History::new();
    /// for _ in 0..100 {
    ///     history.push(AgentMessage::user("?"))?;
    /// }
    /// let (key, mut written) = (WireKey::new(&["mine"]), Vec::new());
    /// for _ in 0..2 {
    ///     written.clear();
    ///     history.encoded(key, |_| Encoded::new(*b"{}", []), |form| {
    ///         if !written.is_empty() {
    ///             written.push(b',');
    ///         }
    ///         written.extend_from_slice(form.bytes());
    ///     });
    ///     assert_eq!(written, ["{}"; 100].join(",").as_bytes());
    /// }
    /// # Ok::<(), agent_core::HistoryError>(())
    /// ```
    pub fn encoded(&self, key: WireKey, make: impl Fn(&Unit) -> Encoded, mut read: impl FnMut(&Encoded)) {
        for chunk in chunk::chunks(&self.tail) {
            let units = chunk.units();
            if !chunk.joined().is_some_and(|joined| joined.with(units, key, &make, &mut read)) {
                for unit in units {
                    unit.wire().with(key, || make(unit), &mut read);
                }
            }
        }
    }

    /// The number of units.
    #[must_use]
    pub fn unit_count(&self) -> usize {
        self.tail.end()
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.units().flat_map(|u| u.entries().iter())
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &AgentMessage> {
        self.entries().map(Entry::message)
    }

    /// The messages that a model may see, oldest first.
    pub fn llm_messages(&self) -> impl Iterator<Item = &Message> {
        self.messages().filter_map(AgentMessage::as_llm)
    }

    /// The last message.
    #[must_use]
    pub fn last(&self) -> Option<&AgentMessage> {
        self.tail.last().and_then(|u| u.entries().last()).map(Entry::message)
    }

    /// The last reply.
    #[must_use]
    pub fn last_reply(&self) -> Option<&AssistantMessage> {
        chunk::units_rev(&self.tail).find_map(|u| u.reply())
    }

    /// Whether the model is to speak next: the last message that it sees is no reply.
    pub(crate) fn awaits_reply(&self) -> bool {
        let last = chunk::units_rev(&self.tail)
            .filter(|u| u.kind() != UnitKind::Failed)
            .find_map(|u| u.entries().iter().rev().find_map(|e| e.message().as_llm()));
        !matches!(last, None | Some(Message::Assistant(_)))
    }

    /// The messages, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<AgentMessage> {
        self.messages().cloned().collect()
    }

    /// Whether a call of this id is in the history. O(n / 32) for n calls.
    #[must_use]
    pub fn has_call(&self, id: &str) -> bool {
        chunk::has_call(&self.tail, id)
    }

    /// How many of the first units of both are the same objects. O(what differs).
    #[must_use]
    pub fn shared_units(&self, other: &Self) -> usize {
        chunk::shared(&self.tail, &other.tail)
    }

    /// Whether this is `earlier` with nothing changed and possibly more appended. O(what is new).
    #[must_use]
    pub fn extends(&self, earlier: &Self) -> bool {
        self.shared_units(earlier) == earlier.unit_count()
    }

    /// Replaces ranges of messages. A splice may not cut an exchange in two.
    ///
    /// # Errors
    /// When a range lies outside, overlaps another, or cuts a call from its result. Then nothing is changed.
    pub fn spliced(&self, splices: &[Splice]) -> Result<Self, SpliceError> {
        splice::apply(self, splices)
    }
}

impl Default for History {
    /// An empty one. Every agent begins with it, and copies it when it appends.
    fn default() -> Self {
        static EMPTY: LazyLock<Arc<Chunk>> = LazyLock::new(Arc::default);
        Self { tail: Arc::clone(&EMPTY) }
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tail, &other.tail)
            || (self.len() == other.len() && self.entries().zip(other.entries()).all(|(a, b)| a == b))
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.messages()).finish()
    }
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.entries())
    }
}

/// Reads a list of entries; it is repaired where it is not closed.
impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<Entry>::deserialize(deserializer)?;
        Ok(Self::repaired(entries).0)
    }
}
