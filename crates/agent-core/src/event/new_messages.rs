//! The messages of a run: in memory, or in the store of its journal.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::history::MessageRef;
use crate::message::{AgentMessage, AssistantMessage, StopReason};
use crate::provider::error::BoxError;

/// The messages of one run in the order in which they ended.
///
/// They are all in memory, unless a compaction removed some of them from the conversation and the journal of the run can
/// read them back: then [`in_memory`](Self::in_memory) has those that are still in the conversation, and
/// [`read`](Self::read) loads all of them. A recorder with a store is such a journal.
///
/// Two values are equal if they have the same length and the same messages in memory.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(into = "Form", from = "Form")]
pub struct NewMessages {
    in_memory: Arc<Vec<MessageRef>>,
    /// The number of messages that are only in the store.
    released: usize,
    stored: Option<Arc<dyn StoredMessages>>,
}

/// Reads the messages of one run back from the store of its journal.
#[async_trait]
pub trait StoredMessages: Send + Sync + fmt::Debug {
    /// Returns all messages of the run in the order in which they ended.
    ///
    /// # Errors
    /// Returns [`ReadMessagesError::Failed`] if the store cannot be read or does not have the run.
    async fn read(&self) -> Result<Vec<MessageRef>, ReadMessagesError>;
}

/// The error of messages that could not be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadMessagesError {
    /// This value was read from JSON or belongs to a run without a journal, so nothing is known about the store.
    #[error(
        "{released} of the run's {total} messages are only in the store of its journal; load the session from there"
    )]
    NoStore {
        /// The number of messages that are not in memory.
        released: usize,
        /// The number of all messages.
        total: usize,
    },
    /// The store has another number of messages.
    #[error("the store has {found} messages of the run, which had {total}")]
    Changed {
        /// The number of messages in the store.
        found: usize,
        /// The number of messages of the run.
        total: usize,
    },
    /// The store could not be read.
    #[error("the messages of the run could not be read back: {message}")]
    Failed {
        /// What went wrong, and where.
        message: String,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },
}

impl ReadMessagesError {
    /// Creates the error of a store that could not be read.
    #[must_use]
    pub fn failed(message: impl Into<String>, source: Option<BoxError>) -> Self {
        Self::Failed { message: message.into(), source }
    }
}

impl NewMessages {
    /// Returns the number of messages, including those that are not in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_memory.len().saturating_add(self.released)
    }

    /// Returns whether the run has no messages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the messages that are in memory, in order: all of them if [`released`](Self::released) is 0. The last
    /// message of the run is always in memory.
    #[must_use]
    pub fn in_memory(&self) -> &[MessageRef] {
        &self.in_memory
    }

    /// Returns the number of messages that are only in the store.
    #[must_use]
    pub fn released(&self) -> usize {
        self.released
    }

    /// Returns all messages if they are in memory, and `None` if some are only in the store.
    #[must_use]
    pub fn all(&self) -> Option<&[MessageRef]> {
        (self.released == 0).then_some(&**self.in_memory)
    }

    /// Returns the text of the last reply that `counts`, with that of the paused replies that it continues.
    pub(crate) fn last_text(&self, counts: impl Fn(&AssistantMessage) -> bool) -> Option<String> {
        Some(self.last_reply(counts)?.into_iter().map(AssistantMessage::text).collect())
    }

    /// Returns the last reply that `counts`, after the paused replies that it continues.
    pub(super) fn last_reply(
        &self,
        counts: impl Fn(&AssistantMessage) -> bool,
    ) -> Option<Vec<&AssistantMessage>> {
        let mut newest_first = self.in_memory.iter().rev().map(|message| message.as_assistant());
        let last = newest_first.by_ref().flatten().find(|reply| counts(reply))?;
        let paused =
            newest_first.map_while(|reply| reply.filter(|reply| reply.stop_reason == StopReason::Paused));
        let mut parts: Vec<_> = std::iter::once(last).chain(paused).collect();
        parts.reverse();
        Some(parts)
    }

    /// Returns all messages. Those that are not in memory are read from the store, together with the rest of the run.
    ///
    /// # Errors
    /// Returns an error if messages are not in memory, and no store is known, it cannot be read, or it has another number
    /// of messages. Does not fail if all messages are in memory.
    pub async fn read(&self) -> Result<Vec<MessageRef>, ReadMessagesError> {
        if self.released == 0 {
            return Ok(self.in_memory.to_vec());
        }
        let (released, total) = (self.released, self.len());
        let Some(stored) = &self.stored else { return Err(ReadMessagesError::NoStore { released, total }) };
        let messages = stored.read().await?;
        match messages.len() {
            found if found == total => Ok(messages),
            found => Err(ReadMessagesError::Changed { found, total }),
        }
    }

    pub(crate) fn push(&mut self, message: MessageRef) {
        Arc::make_mut(&mut self.in_memory).push(message);
    }

    /// Returns as many messages with none of them in memory.
    pub(crate) fn emptied(&self) -> Self {
        Self::with_released(Vec::new(), self.len())
    }

    /// Returns the first `count` messages. Those after them are in memory.
    pub(crate) fn first(&self, count: usize) -> Self {
        let left_out = self.len().saturating_sub(count);
        let kept = self.in_memory.len().saturating_sub(left_out);
        let in_memory = self.in_memory.get(..kept).unwrap_or_default().to_vec();
        Self { released: count - kept, in_memory: Arc::new(in_memory), stored: self.stored.clone() }
    }

    /// Drops the messages that are not among `held`. They are read from `stored` later.
    pub(crate) fn release<'m>(
        &mut self,
        held: impl Iterator<Item = &'m MessageRef>,
        stored: Arc<dyn StoredMessages>,
    ) {
        let address = |message: &MessageRef| std::ptr::from_ref::<AgentMessage>(message).addr();
        let held: BTreeSet<usize> = held.map(address).collect();
        let all = self.len();
        if self.in_memory.iter().any(|m| !held.contains(&address(m))) {
            let rest = self.in_memory.iter().filter(|m| held.contains(&address(m))).cloned();
            self.in_memory = Arc::new(rest.collect());
            self.released = all.saturating_sub(self.in_memory.len());
        }
        // A run that was read from JSON does not know its store.
        self.stored = (self.released > 0).then_some(stored);
    }

    /// Creates messages of which some were released, without their store.
    pub(crate) fn with_released(in_memory: Vec<MessageRef>, released: usize) -> Self {
        Self { in_memory: Arc::new(in_memory), released, stored: None }
    }
}

/// Puts all messages in memory.
impl From<Vec<MessageRef>> for NewMessages {
    fn from(messages: Vec<MessageRef>) -> Self {
        Self::with_released(messages, 0)
    }
}

impl PartialEq for NewMessages {
    fn eq(&self, other: &Self) -> bool {
        self.released == other.released && self.in_memory == other.in_memory
    }
}

/// Shows the numbers of messages, without their text.
impl fmt::Debug for NewMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewMessages")
            .field("in_memory", &self.in_memory.len())
            .field("released", &self.released)
            .finish_non_exhaustive()
    }
}

/// The JSON form: the messages in memory, and the number of the others.
#[derive(Serialize, Deserialize)]
struct Form {
    messages: Arc<Vec<MessageRef>>,
    #[serde(default, skip_serializing_if = "is_none")]
    released_messages: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_none(released: &usize) -> bool {
    *released == 0
}

impl From<NewMessages> for Form {
    fn from(messages: NewMessages) -> Self {
        Self { messages: messages.in_memory, released_messages: messages.released }
    }
}

impl From<Form> for NewMessages {
    fn from(form: Form) -> Self {
        Self { in_memory: form.messages, released: form.released_messages, stored: None }
    }
}
