//! Writes one session of the directory.

use std::path::PathBuf;
use std::sync::Arc;

use agent_core::journal::{Durability, JournalWarning};
use agent_core::{SessionId, Timestamp};

use super::super::files;
use super::super::size_limit::SizeLimit;
use super::super::summary::LiveSummary;
use super::super::write_lock::WriteLock;
use super::super::{BlockingSessionWriter, SessionReader, SessionRecord, WriteJob};
use super::JsonStore;
use super::journal_file::JournalFile;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;

/// The writer of a session: its lock, and its journal after the first record.
#[derive(Debug)]
pub(super) struct JsonWriter {
    store: JsonStore,
    id: SessionId,
    path: PathBuf,
    /// The size of the session's file.
    saved_bytes: u64,
    /// The size of file and journal together.
    size: SizeLimit,
    /// The journal; created with the first record after a save.
    journal: Option<Arc<JournalFile>>,
    /// The summary of the session after the last record.
    summary: LiveSummary,
    /// The buffer of the next write, reused for its capacity.
    bytes: Vec<u8>,
    /// Declared last, so that it is released after everything is written.
    lock: WriteLock,
}

impl JsonWriter {
    pub(super) fn open(store: &JsonStore, id: &str) -> Result<(Self, Option<Session>), SessionError> {
        let lock = store.lock(id)?;
        let path = store.journal_of(id)?;
        let found = match store.read(id) {
            Ok(loaded) => {
                let mut session = loaded.into_session();
                session.interrupt_running_branches();
                // The journal's records move to the file, so that each journal is written by one process only.
                files::remove_empty(&path)?;
                store.replace(&session)?;
                files::remove(&path)?;
                Some(session)
            }
            Err(SessionError::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let empty = Session::new(id.into(), "".into(), Timestamp::default());
        let mut writer = Self {
            store: store.clone(),
            id: SessionId::from(id),
            path,
            saved_bytes: 0,
            size: SizeLimit::new(store.max_file_bytes()),
            journal: None,
            summary: LiveSummary::of(found.as_ref().unwrap_or(&empty)),
            bytes: Vec::new(),
            lock,
        };
        writer.measure()?;
        Ok((writer, found))
    }
}

impl JsonWriter {
    /// Updates the size of the session's file.
    fn measure(&mut self) -> Result<(), SessionError> {
        let path = self.store.path_of(&self.id)?;
        self.saved_bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        Ok(())
    }

    /// Checks that the session can be read with this record.
    fn check_size(&mut self, record: &SessionRecord<'_>) -> Result<(), SessionError> {
        let journal = self.journal.as_ref().map_or(0, |journal| journal.end());
        self.size.set(self.saved_bytes.saturating_add(journal));
        match self.size.allows(record) {
            true => Ok(()),
            false => Err(SessionError::Full { path: self.path.clone(), limit: self.size.limit() }),
        }
    }
}

impl BlockingSessionWriter for JsonWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        self.check_size(record)?;
        let summary = self.summary.update(record);
        self.bytes.clear();
        let journal = match &self.journal {
            Some(journal) => {
                journal.append(record, summary, &mut self.bytes)?;
                journal
            }
            None => {
                let created =
                    JournalFile::create(&self.path, &mut self.lock, record, summary, &mut self.bytes)?;
                self.journal.insert(Arc::new(created))
            }
        };
        if record.durability == Durability::Buffered {
            return Ok(None);
        }
        let journal = Arc::clone(journal);
        Ok(Some(Box::new(move || journal.flush())))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        self.store.replace(session)?;
        self.journal = None;
        self.summary = LiveSummary::of(session);
        self.measure()?;
        files::remove(&self.path)
    }

    fn warning(&mut self) -> Option<JournalWarning> {
        self.size.warning()
    }

    fn reader(&self) -> Option<SessionReader> {
        let (store, id) = (self.store.clone(), self.id.clone());
        Some(Arc::new(move || store.read(id.as_str()).map(LoadedSession::into_session)))
    }
}
