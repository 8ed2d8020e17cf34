//! The file of a journal that is being written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::files::{self, flush_directory};
use super::super::journal::{self, Acknowledged, MARK, SUMMARY, SummaryLine};
use super::super::write_lock::WriteLock;
use super::super::{SessionRecord, SessionSummary};
use crate::error::SessionError;

/// An open journal.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    file: Arc<File>,
    /// The offset of the line with the numbers of the acknowledged records. The line of the summary is after it.
    mark: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    acknowledged: Acknowledged,
    summary: SummaryLine,
    /// The offset of the next record.
    end: u64,
    /// Whether the file's name was flushed.
    is_named: bool,
}

impl JournalFile {
    /// Creates the file with its first record. `bytes` is an empty buffer.
    pub(super) fn create(
        path: &Path,
        lock: &mut WriteLock,
        record: &SessionRecord<'_>,
        summary: &SessionSummary,
        bytes: &mut Vec<u8>,
    ) -> Result<Self, SessionError> {
        // The session before this record, whose number is not included yet.
        journal::begin(bytes, record.session).map_err(encode)?;
        let mark = bytes.len();
        let records = mark + MARK + SUMMARY;
        let end = (records + record.line.len() + 1) as u64;
        let acknowledged = Acknowledged::new(record.number, 0);
        acknowledged.append_to(bytes);
        let mut line = SummaryLine::default();
        line.append_to(bytes, record.number, end, summary).map_err(encode)?;
        bytes.resize(records - 1, b' ');
        bytes.push(b'\n');
        bytes.extend_from_slice(record.line);
        bytes.push(b'\n');
        let file = create_file(path, lock, bytes)?;
        let state = Mutex::new(State { acknowledged, summary: line, end, is_named: false });
        Ok(Self { path: path.to_owned(), file, mark: mark as u64, state })
    }

    /// Appends a record. `bytes` is an empty buffer.
    pub(super) fn append(
        &self,
        record: &SessionRecord<'_>,
        summary: &SessionSummary,
        bytes: &mut Vec<u8>,
    ) -> Result<(), SessionError> {
        bytes.extend_from_slice(record.line);
        bytes.push(b'\n');
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(bytes, state.end)?;
        state.end += bytes.len() as u64;
        state.acknowledged.records = record.number;
        bytes.clear();
        state.acknowledged.append_to(bytes);
        let end = state.end;
        state.summary.append_to(bytes, record.number, end, summary).map_err(encode)?;
        self.write(bytes, self.mark)
    }

    /// Returns the size of the file.
    pub(super) fn end(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).end
    }

    /// Flushes the file to the disk, so that records survive a crash of the machine.
    pub(super) fn flush(&self) -> Result<(), SessionError> {
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
        let mut line = Vec::with_capacity(MARK);
        state.acknowledged.append_to(&mut line);
        self.write(&line, self.mark)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), SessionError> {
        write_at(&self.file, bytes, offset).map_err(SessionError::io(&self.path, "written"))
    }
}

fn encode(source: serde_json::Error) -> SessionError {
    SessionError::Encode { what: "a record of the journal", source }
}

/// Creates the journal with its first record. On Unix it is a second name of the lock's file, so that an open session has one
/// descriptor. Where a file cannot have two names, the journal is a file of its own.
///
/// The file becomes that of the lock first. If the process is ended before the file is named as the journal, its content was
/// never acknowledged, and no reader finds it.
#[cfg(unix)]
fn create_file(path: &Path, lock: &mut WriteLock, bytes: &[u8]) -> Result<Arc<File>, SessionError> {
    create_linked(path, lock, bytes, |from, to| std::fs::hard_link(from, to))
}

#[cfg(unix)]
fn create_linked(
    path: &Path,
    lock: &mut WriteLock,
    bytes: &[u8],
    link: impl Fn(&Path, &Path) -> std::io::Result<()>,
) -> Result<Arc<File>, SessionError> {
    let file = lock.replace_file(bytes)?;
    let mut linked = link(lock.path(), path);
    if linked.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists) {
        // The session's file contains the records of an earlier journal that could not be removed.
        files::remove(path)?;
        linked = link(lock.path(), path);
    }
    if linked.is_ok() {
        return Ok(file);
    }
    file.set_len(0).map_err(SessionError::io(lock.path(), "emptied"))?;
    files::create(path, bytes).map(Arc::new)
}

/// Creates the journal with its first record. Where locks also keep readers out, it is a file of its own.
#[cfg(not(unix))]
fn create_file(path: &Path, _: &mut WriteLock, bytes: &[u8]) -> Result<Arc<File>, SessionError> {
    files::create(path, bytes).map(Arc::new)
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

#[cfg(all(test, unix))]
mod tests;
