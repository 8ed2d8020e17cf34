//! The conversation: a persistent list in which every tool call has its result.
//!
//! Appending creates a longer list and leaves every clone unchanged; a clone costs O(1). Only closed units can be
//! appended: a message without calls, a reply together with the results of all its calls
//! ([`push_exchange`](History::push_exchange)), or a failed reply ([`push_failed`](History::push_failed)). Lists from
//! other sources enter through [`History::repaired`], which reports every change that it made.
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
mod deferred;
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

use crate::identity::ToolCallId;
use crate::message::{AgentMessage, AssistantMessage, DeferredCall, Message, StopReason};
use crate::wire::{Encoded, WireKey};
use chunk::Chunk;

/// A conversation in which every tool call has its result. A clone costs O(1). See the [module documentation](self).
#[derive(Clone)]
pub struct History {
    tail: Arc<Chunk>,
}

/// The error of a message that cannot be appended in this way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// A reply with tool calls was appended without their results; the number of calls.
    #[error(
        "a reply with {0} open tool call(s) cannot enter the history without their results; use push_exchange"
    )]
    OpenCalls(usize),
    /// A tool result was appended without its call; the id of the call.
    #[error("the result of call {0:?} cannot enter the history without its call; use push_exchange")]
    BareResult(String),
    /// A failed reply was passed to a method for successful replies, or the reverse.
    #[error("a reply that ended {0:?} enters the history by {1}")]
    WrongMethod(crate::message::StopReason, &'static str),
    /// The calls and the results do not match one to one, in order.
    #[error(
        "the results do not answer the reply's calls one to one and in order: calls {calls:?}, results {results:?}"
    )]
    Unpaired {
        /// The ids of the calls.
        calls: Vec<String>,
        /// The ids of the results.
        results: Vec<String>,
    },
    /// A message contains a JSON value that is nested deeper than [`MAX_VALUE_DEPTH`](crate::MAX_VALUE_DEPTH).
    #[error("a JSON value of the message is nested deeper than 64 levels; flatten it or store it as text")]
    TooDeep,
    /// A result was given to a call that the conversation does not have.
    #[error("the conversation has no call {0:?}; History::deferred lists the calls that wait for a result")]
    UnknownCall(ToolCallId),
    /// A result was given to a call that is not deferred.
    #[error(
        "the call {0:?} is not deferred and has its result already; only a call whose tool returned ToolResult::deferred \
         can be completed"
    )]
    NotDeferred(ToolCallId),
    /// A result was given to a deferred call that has one already.
    #[error("the deferred call {0:?} has its result already; a call can be completed only once")]
    AlreadyCompleted(ToolCallId),
    /// A deferred result was given as the result of a deferred call.
    #[error(
        "the result of the deferred call {0:?} must not be deferred again; complete the call when its work has ended"
    )]
    DeferredAgain(ToolCallId),
}

impl History {
    /// Creates an empty conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a conversation from any list of messages and returns the repairs that were needed. A call without a
    /// result gets the error result [`ORPHAN_RESULT`], a result without a call is removed, and an empty or
    /// repeated call id is replaced. The result of a call that is not [deferred](Self::deferred) becomes a plain user
    /// message.
    pub fn repaired(messages: impl IntoIterator<Item = impl Into<Entry>>) -> (Self, Vec<Repair>) {
        repair::repaired(messages.into_iter().map(Into::into))
    }

    /// Like [`repaired`](Self::repaired), but reuses the units of `self` for messages that are the same objects, so
    /// that their encoded forms are reused as well.
    pub fn rebuilt(&self, messages: impl IntoIterator<Item = MessageRef>) -> (Self, Vec<Repair>) {
        repair::rebuilt(self, messages.into_iter())
    }

    /// Appends a user message, a note, or a complete reply without calls.
    ///
    /// # Errors
    /// Returns an error if the message is a reply with calls, a failed reply, a tool result, or the result of a call that
    /// is not [deferred](Self::deferred).
    pub fn push(&mut self, message: AgentMessage) -> Result<(), HistoryError> {
        self.push_entry(Entry::from(message))
    }

    /// Like [`push`](Self::push), with a known token count.
    ///
    /// # Errors
    /// Returns the same errors as [`push`](Self::push).
    pub fn push_entry(&mut self, entry: Entry) -> Result<(), HistoryError> {
        Self::check_standalone(&entry)?;
        if let Some(call) = deferred::of_user(entry.message()) {
            deferred::check(self, call)?;
        }
        self.append(Unit::single(entry));
        Ok(())
    }

    /// Returns the deferred calls that have no result yet, oldest first. Takes constant time if no call was deferred, and
    /// otherwise time linear in the number of messages.
    #[must_use]
    pub fn deferred(&self) -> Vec<DeferredCall> {
        deferred::running(self)
    }

    /// Connects the result of a deferred call with its call, or makes it a plain user message if
    /// [`push_entry`](Self::push_entry) would reject it.
    pub(crate) fn linked(&self, entry: Entry) -> Entry {
        deferred::linked(self, entry)
    }

    /// Returns whether the result of this call can be appended.
    pub(crate) fn check_completion(&self, id: &ToolCallId) -> Result<(), HistoryError> {
        deferred::check_completion(self, id)
    }

    /// Returns whether a message can enter alone, apart from what it says about deferred calls, which depends on the
    /// history.
    pub(crate) fn check_standalone(entry: &Entry) -> Result<(), HistoryError> {
        if entry.message().is_too_deep() {
            return Err(HistoryError::TooDeep);
        }
        match entry.message().as_llm() {
            Some(Message::Assistant(reply)) => {
                if reply.is_failed() {
                    return Err(HistoryError::WrongMethod(reply.stop_reason, "push_failed"));
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

    /// Appends a reply together with the results of its calls, one per call and in the order of the calls.
    ///
    /// # Errors
    /// Returns an error if the results do not match the calls, or the reply failed.
    pub fn push_exchange(&mut self, reply: Entry, results: Vec<Entry>) -> Result<(), HistoryError> {
        let unit = Unit::exchange(reply, results)?;
        self.append(unit);
        Ok(())
    }

    /// Appends a reply that ended with `Error` or `Aborted`. It is stored for the user, but no model receives it.
    ///
    /// # Errors
    /// Returns an error if the reply did not fail.
    pub fn push_failed(&mut self, reply: Entry) -> Result<(), HistoryError> {
        match reply.message().as_assistant() {
            Some(r) if r.is_failed() => {
                self.append(Unit::failed(reply));
                Ok(())
            }
            Some(r) => Err(HistoryError::WrongMethod(r.stop_reason, "push or push_exchange")),
            None => Err(HistoryError::WrongMethod(crate::message::StopReason::Stop, "push")),
        }
    }

    pub(crate) fn append(&mut self, unit: Unit) {
        self.append_shared(Arc::new(unit));
    }

    pub(crate) fn append_shared(&mut self, unit: Arc<Unit>) {
        chunk::append(&mut self.tail, unit);
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tail.messages()
    }

    /// Returns whether the conversation has no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sum of the messages' token counts.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tail.tokens()
    }

    /// Returns the number of pictures in the messages of users and in the results of tools, also in those that a request
    /// leaves out. Takes constant time.
    #[must_use]
    pub fn pictures(&self) -> usize {
        self.tail.pictures()
    }

    /// Returns the units, oldest first.
    pub fn units(&self) -> impl Iterator<Item = &Arc<Unit>> {
        chunk::units(&self.tail)
    }

    /// Returns the units, newest first.
    pub(crate) fn units_rev(&self) -> impl Iterator<Item = &Arc<Unit>> {
        chunk::units_rev(&self.tail)
    }

    /// Returns the last unit.
    pub(crate) fn last_unit(&self) -> Option<&Arc<Unit>> {
        self.tail.last()
    }

    /// Calls `read` with the encoded forms of the units, oldest first. `make` creates missing forms, which are cached
    /// beside their units. A form must be a list of JSON values separated by commas, or empty, and must depend only
    /// on the unit and `key`: old units are then read in pieces of many units at once.
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

    /// Returns the number of units.
    #[must_use]
    pub fn unit_count(&self) -> usize {
        self.tail.end()
    }

    /// Returns the messages with their token counts, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.units().flat_map(|u| u.entries().iter())
    }

    /// Returns the messages, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &AgentMessage> {
        self.entries().map(Entry::message)
    }

    /// Returns the messages that a model may receive, oldest first.
    pub fn llm_messages(&self) -> impl Iterator<Item = &Message> {
        self.messages().filter_map(AgentMessage::as_llm)
    }

    /// Returns the last message.
    #[must_use]
    pub fn last(&self) -> Option<&AgentMessage> {
        self.tail.last().and_then(|u| u.entries().last()).map(Entry::message)
    }

    /// Returns the last reply of a model.
    #[must_use]
    pub fn last_reply(&self) -> Option<&AssistantMessage> {
        chunk::units_rev(&self.tail).find_map(|u| u.reply())
    }

    /// Returns whether the model must reply next: the last message that it receives is not a reply, or is a paused one.
    pub(crate) fn awaits_reply(&self) -> bool {
        match self.last_sent() {
            None => false,
            Some(Message::Assistant(reply)) => reply.stop_reason == StopReason::Paused,
            Some(_) => true,
        }
    }

    /// Returns the last reply if the vendor paused it and no message that a model receives is after it. The next request
    /// continues it.
    #[must_use]
    pub fn paused_reply(&self) -> Option<&AssistantMessage> {
        self.last_sent()?.as_assistant().filter(|reply| reply.stop_reason == StopReason::Paused)
    }

    /// Returns the last message that a model receives.
    fn last_sent(&self) -> Option<&Message> {
        chunk::units_rev(&self.tail)
            .filter(|u| u.kind() != UnitKind::Failed)
            .find_map(|u| u.entries().iter().rev().find_map(|e| e.message().as_llm()))
    }

    /// Returns copies of all messages.
    #[must_use]
    pub fn to_vec(&self) -> Vec<AgentMessage> {
        self.messages().cloned().collect()
    }

    /// Returns whether the history contains a call with this id. Costs O(n / 32) for n calls.
    #[must_use]
    pub fn has_call(&self, id: &str) -> bool {
        chunk::has_call(&self.tail, id)
    }

    /// Returns how many units at the start of both histories are the same objects. Costs O(difference).
    #[must_use]
    pub fn shared_units(&self, other: &Self) -> usize {
        chunk::shared(&self.tail, &other.tail)
    }

    /// Returns whether this is `earlier` with zero or more messages appended. Costs O(appended messages).
    #[must_use]
    pub fn extends(&self, earlier: &Self) -> bool {
        self.shared_units(earlier) == earlier.unit_count()
    }

    /// Returns the history with ranges of messages replaced. A splice must not separate a call from its result.
    ///
    /// A [deferred call](Self::deferred) survives the removal of its exchange as a short user message. If only one of the
    /// call and its later result remains, it no longer refers to the other.
    ///
    /// # Errors
    /// Returns an error if a range is out of bounds, overlaps another one, or separates a call from its result.
    pub fn spliced(&self, splices: &[Splice]) -> Result<Self, SpliceError> {
        splice::apply(self, splices)
    }

    /// Returns the first `keep` messages followed by `added`: the conversation as another loop had it. Unlike
    /// [`spliced`](Self::spliced), it has no trace of the messages that are left out, so a call that they completed waits
    /// again. Costs O(messages left out + `added`).
    ///
    /// # Errors
    /// Returns the same errors as [`spliced`](Self::spliced).
    pub fn rewound(&self, keep: usize, added: Vec<Entry>) -> Result<Self, SpliceError> {
        splice::rewound(self, &Splice { from: keep, to: self.len(), messages: added })
    }
}

impl Default for History {
    /// Returns the shared empty history, which is copied on the first append.
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

/// Shows figures, without the messages.
impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History")
            .field("messages", &self.len())
            .field("tokens", &self.tokens())
            .finish_non_exhaustive()
    }
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.entries())
    }
}

/// Deserializes a list of entries and repairs it if it is not closed.
impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = Vec::<Entry>::deserialize(deserializer)?;
        Ok(Self::repaired(entries).0)
    }
}
