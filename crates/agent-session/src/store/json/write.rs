//! Writes one session of the directory.

use std::sync::Arc;

use agent_core::journal::JournalWarning;
use agent_core::{SessionId, Timestamp};

use super::super::files;
use super::super::journal::SavedJournal;
use super::super::size_limit::SizeLimit;
use super::super::summary::LiveSummary;
use super::super::{BlockingSessionWriter, SessionReader, SessionRecord, WriteJob};
use super::JsonStore;
use super::journal_file::JournalFile;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;

/// The writer of a session.
#[derive(Debug)]
pub(super) struct JsonWriter {
    store: JsonStore,
    id: SessionId,
    /// The digest of the session's file; `None` if there is none.
    saved: Option<u32>,
    /// The journal whose records the session's file contains.
    saved_journal: Option<SavedJournal>,
    /// The size of the session's file.
    saved_bytes: u64,
    /// The size of file and journal together.
    size: SizeLimit,
    journal: Arc<JournalFile>,
    /// The summary of the session after the last record.
    summary: LiveSummary,
    /// The buffer of the next write, reused for its capacity.
    bytes: Vec<u8>,
}

impl JsonWriter {
    pub(super) fn open(store: &JsonStore, id: &str) -> Result<(Self, Option<Session>), SessionError> {
        let lock = store.lock(id)?;
        let path = store.journal_of(id)?;
        let (mut saved, mut saved_journal) = (None, None);
        let found = match store.read_files(id) {
            Ok((loaded, journal)) => {
                let mut session = loaded.into_session();
                session.interrupt_running_branches();
                // The journal's records move to the file, so that each journal is written by one process only.
                files::remove_empty(&path)?;
                saved = Some(store.replace(&session, journal)?);
                saved_journal = journal;
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
            saved,
            saved_journal,
            saved_bytes: 0,
            size: SizeLimit::new(store.max_file_bytes()),
            journal: Arc::new(JournalFile::new(path, store.path_of(id)?, lock)),
            summary: LiveSummary::of(found.as_ref().unwrap_or(&empty)),
            bytes: Vec::new(),
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
        self.size.set(self.saved_bytes.saturating_add(self.journal.end()));
        match self.size.allows(record) {
            true => Ok(()),
            false => {
                Err(SessionError::Full { path: self.journal.path().to_owned(), limit: self.size.limit() })
            }
        }
    }
}

impl BlockingSessionWriter for JsonWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        self.check_size(record)?;
        let summary = self.summary.update(record);
        self.bytes.clear();
        let is_pending = self.journal.append(record, summary, self.saved, &mut self.bytes)?;
        if !is_pending {
            return Ok(None);
        }
        let (journal, number) = (Arc::clone(&self.journal), record.number);
        Ok(Some(Box::new(move || Ok(journal.complete()?.unwrap_or(number)))))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        let Self { store, saved, saved_journal, .. } = self;
        self.journal.save(|records| {
            let journal = records.or(*saved_journal);
            // Also if the journal cannot be removed afterwards.
            *saved = Some(store.replace(session, journal)?);
            *saved_journal = journal;
            Ok(())
        })?;
        self.summary = LiveSummary::of(session);
        self.measure()
    }

    fn warning(&mut self) -> Option<JournalWarning> {
        self.size.warning()
    }

    fn reader(&self) -> Option<SessionReader> {
        let (store, id) = (self.store.clone(), self.id.clone());
        let journal = Arc::downgrade(&self.journal);
        Some(Arc::new(move || {
            if let Some(journal) = journal.upgrade() {
                journal.create()?;
            }
            store.read(id.as_str()).map(LoadedSession::into_session)
        }))
    }
}

impl Drop for JsonWriter {
    fn drop(&mut self) {
        // A job or a reader can have the journal a moment longer.
        self.journal.release();
    }
}
