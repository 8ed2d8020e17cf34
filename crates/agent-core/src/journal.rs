//! The write-ahead port: what a run decided is written down before anything is done about it.
//!
//! The driver awaits [`Journal::append`] after what it applied and before it performs the next step or tells any
//! subscriber; only that a reply begins is told before it is written down, together with what ends it. agent-session
//! implements it on files; without one nothing is written.
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

use async_trait::async_trait;

use crate::event::AgentEvent;
use crate::identity::Timestamp;
use crate::provider::error::BoxError;
use crate::run::{Input, Run};

/// Where a run is written down.
#[async_trait]
pub trait Journal: Send + Sync + fmt::Debug {
    /// Writes one entry. When it returns, the entry survives the end of the process; with
    /// [`Durability::Flushed`], also the end of the machine.
    ///
    /// # Errors
    /// When it could not be written. The run ends; nothing that it decided is done.
    async fn append(&self, entry: JournalEntry<'_>) -> Result<(), JournalError>;

    /// Writes that a group of parallel loops was announced, or how it ended: what belongs to no run. A journal that keeps no
    /// tree may leave it out, which is what happens unless this is written.
    ///
    /// # Errors
    /// As [`append`](Self::append). Where the announcement could not be written, no branch is begun.
    async fn append_group(&self, entry: GroupEntry<'_>) -> Result<(), JournalError> {
        let _ = entry;
        Ok(())
    }
}

/// An event of a group of parallel loops.
#[derive(Debug)]
#[non_exhaustive]
pub struct GroupEntry<'a> {
    /// When.
    pub now: Timestamp,
    /// A `ParallelLoopStart` or a `ParallelLoopEnd`.
    pub event: &'a AgentEvent,
    /// How safe it must be.
    pub durability: Durability,
}

impl<'a> GroupEntry<'a> {
    /// An event of a group. Its end is flushed: what was selected is what the conversation goes on from.
    #[must_use]
    pub fn new(now: Timestamp, event: &'a AgentEvent) -> Self {
        let durability = match event {
            AgentEvent::ParallelLoopEnd(_) => Durability::Flushed,
            _ => Durability::Buffered,
        };
        Self { now, event, durability }
    }
}

/// An input that was applied.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedInput {
    /// When.
    pub now: Timestamp,
    /// The input.
    pub input: Input,
}

/// What was applied since the entry before (nothing for the start), what the run said to it, and the run after it.
///
/// Most entries have one input. Inputs between which nothing was done are one entry: the beginning of a reply, the reply, and
/// that its calls begin.
#[derive(Debug)]
#[non_exhaustive]
pub struct JournalEntry<'a> {
    /// When the last input was applied.
    pub now: Timestamp,
    /// The inputs in their order; none for the start of the run.
    pub inputs: &'a [AppliedInput],
    /// What the run said, to all of them.
    pub events: &'a [AgentEvent],
    /// The run as it is now.
    pub run: &'a Run,
    /// How safe it must be.
    pub durability: Durability,
}

impl<'a> JournalEntry<'a> {
    /// An entry, for those who apply inputs to a run themselves and write them down like the driver.
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

/// How safe an entry must be before the run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Handed to the operating system.
    #[default]
    Buffered,
    /// On the disk: at the end of a turn, where a person is asked, and before a call that must not run twice.
    Flushed,
}

/// An entry could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the run could not be written down: {message}")]
#[non_exhaustive]
pub struct JournalError {
    /// What went wrong, where.
    pub message: String,
    /// The cause.
    #[source]
    pub source: Option<BoxError>,
}

impl JournalError {
    /// An error that says `message`.
    #[must_use]
    pub fn new(message: impl Into<String>, source: Option<BoxError>) -> Self {
        Self { message: message.into(), source }
    }
}
