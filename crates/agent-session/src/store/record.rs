//! Writing a session record by record.

use std::fmt;

use agent_core::BoxFuture;
use agent_core::journal::Durability;
use async_trait::async_trait;

use crate::error::SessionError;
use crate::model::{LoopRecord, Session};

/// The rest of a write: the record is durable when this future has completed.
pub type PendingWrite = BoxFuture<'static, Result<(), SessionError>>;

/// The right to write one session: an append-only journal of records, and the session as a whole. The right ends when
/// the writer is dropped.
///
/// The recorder calls `append` in the order of the records' numbers and does not call it again after an error. It waits
/// for the [`PendingWrite`] of a record before the run acts on the record.
#[async_trait]
pub trait SessionWriter: fmt::Debug + Send {
    /// Adds a record to the journal. It must fix the record's place before it returns, and must not wait: what takes
    /// time belongs in the returned future. Without a future the record is as durable as it asks for.
    ///
    /// # Errors
    /// When it cannot be written. The recorder drops the writer then and opens the session again.
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError>;

    /// Writes the session as a whole. It contains all records so far, so the journal can be emptied afterwards.
    ///
    /// # Errors
    /// When it cannot be written. The records must still be there then.
    async fn save(&mut self, session: &Session) -> Result<(), SessionError>;

    /// Writes the session when the last handle of the recorder is dropped, where nothing can be awaited. By default it
    /// does nothing: the journal has all records.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        let _ = session;
        Ok(())
    }
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
    /// Returns the session without its loops and without this record. A store that gets the first record of a session
    /// that it does not have stores this beside the record, so that [`Session::with_records`] can rebuild the session.
    ///
    /// # Errors
    /// When it cannot be copied by way of its JSON form.
    pub fn head(&self) -> Result<Session, SessionError> {
        let encode = |source| SessionError::Encode { what: "the session", source };
        Session::from_value(self.session.head_value().map_err(encode)?)
            .map_err(|error| SessionError::store("the session", "copied", error.to_string()))
    }

    /// Its loop; none for the record of a group.
    #[must_use]
    pub fn record(&self) -> Option<&LoopRecord> {
        self.session.loops.get(self.position?)
    }
}
