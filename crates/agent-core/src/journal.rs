//! The write-ahead journal of a run.
//!
//! The driver awaits [`Journal::append`] after it applied an input, and before it performs the next step or delivers
//! the events. The start of a reply is an exception: it is delivered at once and journaled with the end of the reply.
//! agent-session implements the trait with files; without a journal nothing is recorded.
//!
//! ```
//! use agent_core::journal::{Durability, Journal, JournalEntry, JournalError};
//!
//! #[derive(Debug)]
//! struct Counting(std::sync::atomic::AtomicUsize);
//!
//! #[async_trait::async_trait]
//! impl Journal for Counting {
//!     async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError> {
//!         self.0.fetch_add(entry.events.len(), std::sync::atomic::Ordering::Relaxed);
//!         Ok(())
//!     }
//! }
//! # let _ = Durability::Buffered;
//! ```

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::event::AgentEvent;
pub use crate::event::JournalWarning;
use crate::identity::{LoopId, SessionId, Timestamp};
use crate::provider::error::BoxError;
pub use crate::run::AppliedInput;
use crate::run::{ChildEnd, Recorded, Run, StoredMessages};

/// Records the inputs and events of a run durably.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Appends one entry. When it returns, the entry survives the end of the process, and with
    /// [`Durability::Flushed`] also the end of the machine.
    ///
    /// # Errors
    /// Returns an error if the entry could not be written. The run ends, what it decided is not performed, and the events of
    /// the entry are not delivered. [`AgentHandle::resume`](crate::AgentHandle::resume) writes the entry again, unless
    /// [`recorded_loop`](Self::recorded_loop) shows that it was written.
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError>;

    /// Appends the start or the end of a group of parallel loops, which belongs to no single run. The default does
    /// nothing, which suits a journal that stores no tree of loops.
    ///
    /// # Errors
    /// Returns the same errors as [`append`](Self::append). If the start could not be written, no branch starts.
    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        let _ = entry;
        Ok(())
    }

    /// Returns what is recorded about a loop, to continue a child or a branch that was suspended or cut off. The default,
    /// [`RecordedLoop::Unknown`], suits a journal that cannot be read back: an interrupted call is then asked about, and a
    /// group of branches is not continued.
    ///
    /// # Errors
    /// Returns an error if the record could not be read. The call or the group ends with the error.
    async fn recorded_loop(
        &self,
        session: &SessionId,
        loop_id: &LoopId,
    ) -> Result<RecordedLoop, JournalError> {
        let _ = (session, loop_id);
        Ok(RecordedLoop::Unknown)
    }

    /// Returns a reader of the run's messages, if the journal has all of them and can read them back. The run then does
    /// not keep those that compactions removed from its conversation. The default returns `None`: the run keeps all.
    ///
    /// The driver asks after each compaction and before it resumes a run. Events keep the reader, so it must work after
    /// the journal was closed, and must not hold it open.
    fn stored_messages(&self, run: &Run) -> Option<Arc<dyn StoredMessages>> {
        let _ = run;
        None
    }

    /// Returns a warning about the journal of this run that it has not returned before. The driver asks at the end of each
    /// turn and emits [`AgentEvent::JournalWarning`]. The default returns `None`.
    fn warning(&self, run: &Run) -> Option<JournalWarning> {
        let _ = run;
        None
    }
}

/// What a journal has recorded about a loop.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordedLoop {
    /// The journal cannot be read back.
    Unknown,
    /// The loop is not recorded, so it has not started.
    Absent,
    /// The run as its last record left it. It waits for answers or was cut off.
    Open(Box<Run>),
    /// The loop has ended.
    Ended(Box<ChildEnd>),
}

/// An event of a group of parallel loops.
#[derive(Debug)]
#[non_exhaustive]
pub struct GroupEntry<'a> {
    /// The time of the event.
    pub now: Timestamp,
    /// A `ParallelLoopStart` or a `ParallelLoopEnd`.
    pub event: &'a AgentEvent,
    /// The required durability of the entry.
    pub durability: Durability,
}

impl<'a> GroupEntry<'a> {
    /// Creates an entry. The end of a group is flushed, because the conversation continues from the selected branch.
    #[must_use]
    pub fn new(now: Timestamp, event: &'a AgentEvent) -> Self {
        let durability = match event {
            AgentEvent::ParallelLoopEnd(_) => Durability::Flushed,
            _ => Durability::Buffered,
        };
        Self { now, event, durability }
    }
}

/// The inputs applied since the previous entry (none for the start), the events they caused, and the run after them.
///
/// Most entries contain one input. Inputs between which the driver performed nothing are combined: the start of a
/// reply, the reply, and the starts of its calls.
#[derive(Debug)]
#[non_exhaustive]
pub struct JournalEntry<'a> {
    /// The time at which the last input was applied.
    pub now: Timestamp,
    /// The inputs in order; empty for the start of the run.
    pub inputs: &'a [AppliedInput],
    /// The events that the inputs caused.
    pub events: &'a [AgentEvent],
    /// The run after the inputs.
    pub run: &'a Run,
    /// The required durability of the entry.
    pub durability: Durability,
}

impl<'a> JournalEntry<'a> {
    /// Creates an entry, for programs that apply inputs to a run themselves and journal them like the driver.
    #[must_use]
    pub fn new(
        run: &'a Run,
        inputs: &'a [AppliedInput],
        events: &'a [AgentEvent],
        durability: Durability,
    ) -> Self {
        Self { now: run.now(), inputs, events, run, durability }
    }
}

/// Copies the inputs of an entry, which replay it.
impl From<&JournalEntry<'_>> for Recorded {
    fn from(entry: &JournalEntry<'_>) -> Self {
        Self::new(entry.now, entry.inputs.to_vec())
    }
}

/// How durable an entry must be before the run continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Durability {
    /// The entry was handed to the operating system.
    #[default]
    Buffered,
    /// The entry is on the disk. Required at the end of a turn, before a question to the user, and before a call that
    /// must not run twice.
    Flushed,
}

/// The error of an entry that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the run could not be journaled: {message}")]
#[non_exhaustive]
pub struct JournalError {
    /// What went wrong, and in which file.
    pub message: String,
    /// The underlying error, if there is one.
    #[source]
    pub source: Option<BoxError>,
}

impl JournalError {
    /// Creates an error with a message and its cause.
    #[must_use]
    pub fn new(message: impl Into<String>, source: Option<BoxError>) -> Self {
        Self { message: message.into(), source }
    }
}
