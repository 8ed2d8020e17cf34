//! Writes one session of the database.

use std::sync::{Arc, OnceLock};

use agent_core::SessionId;
use agent_core::journal::{Durability, JournalWarning};

use super::super::database::Words;
use super::super::size_limit::SizeLimit;
use super::super::summary::LiveSummary;
use super::super::write_lock::WriteLock;
use super::super::{BlockingSessionWriter, SessionReader, SessionRecord, WriteJob};
use super::SqliteStore;
use super::commit::{self, Waiting, Writing};
use super::rows::Whole;
use crate::error::SessionError;
use crate::model::Session;

/// The writer of a session.
#[derive(Debug)]
pub(super) struct SqliteWriter {
    store: SqliteStore,
    session: Arc<Writing>,
    id: SessionId,
    /// The session without its loops before its first record; the next record of a new session takes it.
    is_new: bool,
    /// The size of the saved lines and of all records after them.
    size: SizeLimit,
    /// The summary of the session after the last record.
    summary: LiveSummary,
    /// Declared last, so that it is released after everything is written.
    _lock: WriteLock,
}

impl SqliteWriter {
    pub(super) fn open(store: &SqliteStore, id: &str) -> Result<(Self, Option<Session>), SessionError> {
        let lock = store.lock(id)?;
        let found = match store.read_session(id) {
            Ok(mut session) => {
                session.interrupt_running_branches();
                Some(session)
            }
            Err(SessionError::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let empty = Session::new(id.into(), "".into(), agent_core::Timestamp::default());
        let mut writer = Self {
            store: store.clone(),
            session: Arc::new(Writing::new(SessionId::from(id), None)),
            id: SessionId::from(id),
            is_new: found.is_none(),
            size: SizeLimit::new(store.max_session_bytes),
            summary: LiveSummary::of(found.as_ref().unwrap_or(&empty)),
            _lock: lock,
        };
        if let Some(session) = &found {
            // The records move to the lines, so that all records of a session are written by one process.
            writer.put(session)?;
        }
        Ok((writer, found))
    }

    fn put(&mut self, session: &Session) -> Result<(), SessionError> {
        let encoded = Whole::new(session, Words::Kept)?;
        if encoded.bytes() > self.size.limit() {
            return Err(self.store.full());
        }
        let stored = self.store.shared.write(Durability::Buffered, |t| encoded.put(t))?;
        self.session.set_stored(stored);
        self.is_new = false;
        self.size.set(encoded.bytes());
        Ok(())
    }

    /// Checks that the session can be read with this record, and adds its size.
    fn add_size(&mut self, record: &SessionRecord<'_>, begin: Option<&Session>) -> Result<(), SessionError> {
        if let Some(session) = begin {
            let encoded = Whole::new(session, Words::Kept)?;
            self.size.set(encoded.bytes());
        }
        if self.size.allows(record) { Ok(()) } else { Err(self.store.full()) }
    }
}

impl BlockingSessionWriter for SqliteWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let begin = self.is_new.then(|| record.head()).transpose()?;
        self.add_size(record, begin.as_ref())?;
        self.is_new = false;
        let new = record.record().map(|r| r.messages.get(record.own_before..).unwrap_or_default());
        let (summary, waits) = self.summary.update(record);
        let waiting = Arc::new(Waiting {
            session: Arc::clone(&self.session),
            number: record.number,
            line: String::from_utf8_lossy(record.line).into_owned(),
            durability: record.durability,
            messages: new.unwrap_or_default().to_vec(),
            words: OnceLock::new(),
            summary: summary.clone(),
            waits: waits.cloned(),
            begin,
            outcome: OnceLock::new(),
        });
        let shared = Arc::clone(&self.store.shared);
        shared.committer.add(Arc::clone(&waiting));
        // Later records may wait for another transaction.
        Ok(Some(Box::new(move || commit::complete(&shared, &waiting).map(|()| waiting.number))))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        commit::commit_all(&self.store.shared);
        if self.session.is_broken() {
            return Err(commit::broken(&self.store.shared));
        }
        self.put(session)?;
        self.summary = LiveSummary::of(session);
        Ok(())
    }

    fn warning(&mut self) -> Option<JournalWarning> {
        self.size.warning()
    }

    fn reader(&self) -> Option<SessionReader> {
        let (store, session, id) = (self.store.clone(), Arc::clone(&self.session), self.id.clone());
        Some(Arc::new(move || {
            // The records that still wait are written first.
            commit::commit_all(&store.shared);
            if session.is_broken() {
                return Err(commit::broken(&store.shared));
            }
            store.read_session(id.as_str())
        }))
    }
}
