//! Writes one session of the directory.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use agent_core::SessionId;
use agent_core::journal::Durability;

use super::super::files::{self, flush_directory};
use super::super::journal::{self, Acknowledged, MARK};
use super::super::write_lock::WriteLock;
use super::super::{BlockingSessionWriter, SessionReader, SessionRecord, WriteJob};
use super::JsonStore;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;

/// A loop begins only while this part of the limit is left: one eighth.
const ROOM_FOR_LOOP: u64 = 8;

/// An open journal and the lock of its session.
#[derive(Debug)]
pub(super) struct JsonWriter {
    store: JsonStore,
    id: SessionId,
    path: PathBuf,
    /// The size of the session's file.
    saved_bytes: u64,
    /// The journal; created with the first record after a save.
    journal: Option<Arc<Journal>>,
    /// The buffer of the next write, reused for its capacity.
    bytes: Vec<u8>,
    /// Declared last, so that it is released after everything is written.
    _lock: WriteLock,
}

/// A journal's file.
#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: File,
    /// The offset of the line with the numbers of the acknowledged records.
    mark: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    acknowledged: Acknowledged,
    /// The offset of the next record.
    end: u64,
    /// Whether the file's name was flushed.
    is_named: bool,
}

impl Journal {
    /// Creates the file with its first record.
    fn create(path: PathBuf, record: &SessionRecord<'_>, bytes: &mut Vec<u8>) -> Result<Self, SessionError> {
        let encode = |source| SessionError::Encode { what: "a record of the journal", source };
        // The session before this record, whose number is not included yet.
        journal::begin(bytes, record.session).map_err(encode)?;
        let mark = bytes.len() - MARK;
        let acknowledged = Acknowledged::new(record.number, 0);
        if let Some(line) = bytes.get_mut(mark..) {
            line.copy_from_slice(&acknowledged.line());
        }
        bytes.extend_from_slice(record.line);
        bytes.push(b'\n');
        let file = files::create(&path, bytes)?;
        let state = Mutex::new(State { acknowledged, end: bytes.len() as u64, is_named: false });
        Ok(Self { path, file, mark: mark as u64, state })
    }

    fn append(&self, record: &SessionRecord<'_>, bytes: &mut Vec<u8>) -> Result<(), SessionError> {
        bytes.extend_from_slice(record.line);
        bytes.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(bytes, state.end)?;
        state.end += bytes.len() as u64;
        state.acknowledged.records = record.number;
        self.write(&state.acknowledged.line(), self.mark)
    }

    /// Returns the size of the file.
    fn end(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end
    }

    /// Flushes the file to the disk, so that records survive a crash of the machine.
    fn flush(&self) -> Result<(), SessionError> {
        let (records, is_named) = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            (state.acknowledged.records, state.is_named)
        };
        self.file.sync_data().map_err(SessionError::io(&self.path, "flushed to the disk"))?;
        if !is_named {
            flush_directory(&self.path);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_named = true;
        state.acknowledged.flushed = state.acknowledged.flushed.max(records);
        self.write(&state.acknowledged.line(), self.mark)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), SessionError> {
        write_at(&self.file, bytes, offset).map_err(SessionError::io(&self.path, "written"))
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
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
        let (store, id) = (store.clone(), SessionId::from(id));
        let mut writer =
            Self { store, id, path, saved_bytes: 0, journal: None, bytes: Vec::new(), _lock: lock };
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
    fn check_size(&self, record: &SessionRecord<'_>) -> Result<(), SessionError> {
        let limit = self.store.max_file_bytes();
        let journal = self.journal.as_ref().map_or(0, |journal| journal.end());
        let bytes = self.saved_bytes.saturating_add(journal).saturating_add(record.line.len() as u64);
        // A new loop needs room for its end.
        let room = if record.begins_loop() { limit / ROOM_FOR_LOOP } else { 0 };
        if bytes.saturating_add(room) <= limit {
            return Ok(());
        }
        Err(SessionError::Full { path: self.path.clone(), limit })
    }
}

impl BlockingSessionWriter for JsonWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        self.check_size(record)?;
        self.bytes.clear();
        let journal = match &self.journal {
            Some(journal) => {
                journal.append(record, &mut self.bytes)?;
                journal
            }
            None => {
                let created = Journal::create(self.path.clone(), record, &mut self.bytes)?;
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
        self.measure()?;
        files::remove(&self.path)
    }

    fn reader(&self) -> Option<SessionReader> {
        let (store, id) = (self.store.clone(), self.id.clone());
        Some(Arc::new(move || store.read(id.as_str()).map(LoadedSession::into_session)))
    }
}
