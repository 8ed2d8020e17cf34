//! Records of a session, and their writer.

use std::fmt;
use std::sync::Arc;

use agent_core::BoxFuture;
use agent_core::journal::{Durability, JournalWarning};
use agent_core::run::Run;
use async_trait::async_trait;

use crate::error::SessionError;
use crate::model::{LoopRecord, Session};

/// The rest of a write: the record is durable when this future has completed.
pub type PendingWrite = BoxFuture<'static, Result<(), SessionError>>;

/// Reads a session that is being written, with all records that were appended, also those whose write is not complete.
/// It blocks, and works until its writer is dropped.
pub type SessionReader = Arc<dyn Fn() -> Result<Session, SessionError> + Send + Sync>;

/// The right to write one session: an append-only journal of records, and the session as a whole. The right ends when
/// the writer is dropped.
///
/// The recorder calls `append` in the order of the records' numbers and does not call it again after an error. It waits
/// for the [`PendingWrite`] of a record before the run acts on the record.
#[async_trait]
pub trait SessionWriter: fmt::Debug + Send {
    /// Adds a record to the journal. The order of the records must be fixed when the call returns. The call must not wait;
    /// slow work belongs in the returned future. Without a future, the record already is as durable as it asks for.
    ///
    /// # Errors
    /// When the record cannot be written. The recorder drops the writer then and opens the session again.
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError>;

    /// Writes the whole session. It contains all records so far, so the journal can be emptied afterwards. The session can be
    /// large, so a store that blocks writes and drops it in another thread.
    ///
    /// # Errors
    /// When the session cannot be written. The records must be unchanged then.
    async fn save(&mut self, session: Session) -> Result<(), SessionError>;

    /// Returns a reader of the session. With it the recorder does not keep what a long run does not need any more: after
    /// each compaction it drops the messages that left the conversation, and reads them back when a whole session is
    /// needed. Without one, the default, it keeps everything.
    fn reader(&self) -> Option<SessionReader> {
        None
    }

    /// Returns a warning that the writer has not returned before, for example that the session approaches the size that the
    /// store reads. The run emits it as an event. By default there is none.
    fn warning(&mut self) -> Option<JournalWarning> {
        None
    }

    /// Writes the session after its agent or its recorder was dropped, in a thread that may block but cannot await. By
    /// default it does nothing: the journal has all records.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        let _ = session;
        Ok(())
    }
}

/// A record of a session: an input of a run with its new messages and events and the run's new state, or an event of a
/// group of parallel loops.
#[derive(Debug)]
#[non_exhaustive]
pub struct SessionRecord<'a> {
    /// The number of the record in the session, from 1, without gaps.
    pub number: u64,
    /// The record as one JSON object, without a line feed. The records since the last save are read together, in order.
    pub line: &'a [u8],
    /// The durability that the record must have when its write is complete.
    pub durability: Durability,
    /// The session, including this record. If the writer has a [`reader`](SessionWriter::reader), messages and events of
    /// earlier records can be absent: another message stands at the place of such a message.
    pub session: &'a Session,
    /// The position of the record's loop in the session; `None` for a group's record, which can change every loop but has no
    /// messages.
    pub position: Option<usize>,
    /// The number of the loop's own messages before this record.
    pub own_before: usize,
    /// The number of the loop's other messages before this record.
    pub other_before: usize,
    /// The run of the loop after this record; `None` for a group's record.
    pub(crate) run: Option<&'a Run>,
}

impl SessionRecord<'_> {
    /// Returns the session without its loops and without this record. A store that gets the first record of a session
    /// that it does not have stores this beside the record, so that [`Session::with_records`] can rebuild the session.
    ///
    /// # Errors
    /// When the session cannot be written as JSON and read again.
    pub fn head(&self) -> Result<Session, SessionError> {
        let encode = |source| SessionError::Encode { what: "the session", source };
        Session::from_value(self.session.head_value().map_err(encode)?)
            .map_err(|error| SessionError::store("the session", "copied", error.to_string()))
    }

    /// Returns whether the record is the first one of a loop with messages or of a group.
    pub(crate) fn begins_loop(&self) -> bool {
        self.own_before == 0 && self.other_before == 0
    }

    /// Returns the record's loop; `None` for the record of a group.
    #[must_use]
    pub fn record(&self) -> Option<&LoopRecord> {
        self.session.loops.get(self.position?)
    }
}
