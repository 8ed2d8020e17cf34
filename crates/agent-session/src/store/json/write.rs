//! Writes one session of the directory.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::SessionId;
use agent_core::journal::Durability;
use serde_json::json;

use super::super::files::{flush_directory, owner_only};
use super::super::write_lock::WriteLock;
use super::super::{BlockingSessionWriter, SessionReader, SessionRecord, WriteJob};
use super::JsonStore;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::{SESSION_VERSION, Session};

/// An open journal and the lock of its session.
#[derive(Debug)]
pub(super) struct JsonWriter {
    store: JsonStore,
    id: SessionId,
    journal: PathBuf,
    file: Arc<File>,
    /// Whether the journal's first line is written.
    begun: bool,
    /// The buffer of the next write, reused for its capacity.
    bytes: Vec<u8>,
    /// Declared last, so that it is released after everything is written.
    _lock: WriteLock,
}

impl JsonWriter {
    pub(super) fn open(store: &JsonStore, id: &str) -> Result<(Self, Option<Session>), SessionError> {
        let lock = store.lock(id)?;
        let found = match store.read(id) {
            Ok(loaded) => {
                let mut session = loaded.into_session();
                session.interrupt_running_branches();
                // The journal's records move to the file, so that each journal is written by one process only.
                store.replace(&session)?;
                Some(session)
            }
            Err(SessionError::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let journal = store.journal_of(id)?;
        let mut options = File::options();
        options.create(true).append(true);
        owner_only(&mut options);
        let file = options.open(&journal).map_err(SessionError::io(&journal, "opened"))?;
        file.set_len(0).map_err(SessionError::io(&journal, "emptied"))?;
        flush_directory(&journal);
        let (store, file) = (store.clone(), Arc::new(file));
        let writer = Self {
            store,
            id: SessionId::from(id),
            journal,
            file,
            begun: false,
            bytes: Vec::new(),
            _lock: lock,
        };
        Ok((writer, found))
    }
}

impl BlockingSessionWriter for JsonWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let encode = |source| SessionError::Encode { what: "a record of the journal", source };
        self.bytes.clear();
        if !self.begun {
            // The session before this record, whose number is not included yet.
            let head = record.session.head_value().map_err(encode)?;
            let first = json!({ "journal": SESSION_VERSION, "head": head });
            serde_json::to_writer(&mut self.bytes, &first).map_err(encode)?;
            self.bytes.push(b'\n');
        }
        self.bytes.extend_from_slice(record.line);
        self.bytes.push(b'\n');
        (&*self.file).write_all(&self.bytes).map_err(SessionError::io(&self.journal, "written"))?;
        self.begun = true;
        if record.durability == Durability::Buffered {
            return Ok(None);
        }
        let (file, path) = (Arc::clone(&self.file), self.journal.clone());
        Ok(Some(Box::new(move || flush(&path, &file))))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        self.store.replace(session)?;
        self.file.set_len(0).map_err(SessionError::io(&self.journal, "emptied"))?;
        self.begun = false;
        Ok(())
    }

    fn reader(&self) -> Option<SessionReader> {
        let (store, id) = (self.store.clone(), self.id.clone());
        Some(Arc::new(move || store.read(id.as_str()).map(LoadedSession::into_session)))
    }
}

/// Flushes the file to the disk, so that records survive a crash of the machine.
fn flush(path: &Path, file: &File) -> Result<(), SessionError> {
    file.sync_data().map_err(SessionError::io(path, "flushed to the disk"))
}
