//! One record on its way into a store.

use std::fmt;

use agent_core::journal::Durability;

use crate::error::SessionError;
use crate::model::{LoopRecord, Session};

/// What must still be done for a record to be safe. It blocks.
pub type WriteJob = Box<dyn FnOnce() -> Result<(), SessionError> + Send>;

/// The right to write one session, which ends with this object.
pub trait SessionWriter: fmt::Debug + Send {
    /// Takes a record. It is safe when the job that comes back, if there is one, has been done; jobs of several records may
    /// be done in any order.
    ///
    /// # Errors
    /// When it could not be written. Nothing may be written after that: the session must be opened again.
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError>;

    /// Writes the session as a whole, which takes in all records so far.
    ///
    /// # Errors
    /// When it could not be written. The records are still there then.
    fn save(&mut self, session: &Session) -> Result<(), SessionError>;
}

/// One input of a run, what it brought, and where the run stands after it; or that a group of parallel loops was announced, or how
/// it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct SessionRecord<'a> {
    /// Its number in the session, from 1, without gaps.
    pub number: u64,
    /// The record as one JSON object, without a line end. Records since the last save belong together and are read in their
    /// order.
    pub line: &'a [u8],
    /// How safe it must be.
    pub durability: Durability,
    /// The session with the record in it.
    pub session: &'a Session,
    /// The place of its loop in the session; none for the record of a group, which may change every loop but brings no messages.
    pub position: Option<usize>,
    /// How many messages of the loop's own were there before it.
    pub own_before: usize,
    /// How many of its other messages were there before it.
    pub other_before: usize,
}

impl SessionRecord<'_> {
    /// Its loop; none for the record of a group.
    #[must_use]
    pub fn record(&self) -> Option<&LoopRecord> {
        self.session.loops.get(self.position?)
    }
}
