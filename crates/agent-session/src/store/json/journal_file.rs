//! The file of a journal that is being written.

use std::fs::File;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::journal::Durability;

use super::super::files::{self, flush_directory};
use super::super::journal::{self, Acknowledged, MARK, SUMMARY, SavedJournal, SummaryLine};
use super::super::lines;
use super::super::summary::Waits;
use super::super::write_lock::WriteLock;
use super::super::{SessionRecord, SessionSummary};
use super::form2::{JournalMark, mark_journal};
use crate::error::SessionError;

/// The journal of a session that is being written, and the session's lock.
///
/// The first record after a save creates a file, which takes several system calls that can wait for the directory. The
/// records are therefore collected in memory until [`create`](Self::create) has run on a thread that may block.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    /// The session's file, which tells that there is a journal.
    saved: PathBuf,
    /// The lock of the session; `None` after it was released. A thread that creates or removes the file holds the mutex.
    lock: Mutex<Option<WriteLock>>,
    /// `None` before the first record after a save.
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    target: Target,
    /// The offset of the line with the numbers of the acknowledged records. The line of the summary is after it.
    mark: u64,
    acknowledged: Acknowledged,
    summary: SummaryLine,
    /// The offset of the next record.
    end: u64,
    /// The number of the last record that must be flushed.
    to_flush: u64,
    /// Whether the file's name was flushed.
    is_named: bool,
    /// The first and the last record.
    records: Option<SavedJournal>,
    /// Whether the journal continues the session's file.
    continues_file: bool,
}

/// What lists need of the session after a record.
pub(super) type Listed<'a> = (&'a SessionSummary, Option<&'a Arc<Waits>>);

/// Where the bytes of a journal are.
#[derive(Debug)]
enum Target {
    /// The whole content of a file that is not created yet.
    Memory(Vec<u8>),
    File(Arc<File>),
}

impl JournalFile {
    pub(super) fn new(path: PathBuf, saved: PathBuf, lock: WriteLock) -> Self {
        Self { path, saved, lock: Mutex::new(Some(lock)), state: Mutex::new(None) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record. `saved` is the digest of the session's file, and `bytes` an empty buffer. Returns whether [`complete`](Self::complete) must be called.
    pub(super) fn append(
        &self,
        record: &SessionRecord<'_>,
        summary: Listed<'_>,
        saved: Option<u32>,
        bytes: &mut Vec<u8>,
    ) -> Result<bool, SessionError> {
        let mut guard = locked(&self.state);
        let Some(state) = guard.as_mut() else {
            *guard = Some(State::begin(record, summary, saved)?);
            return Ok(true);
        };
        state.append(record, summary, bytes, &self.path)?;
        Ok(matches!(state.target, Target::Memory(_)) || state.to_flush > state.acknowledged.flushed)
    }

    /// Returns the size of the file.
    pub(super) fn end(&self) -> u64 {
        locked(&self.state).as_ref().map_or(0, |state| state.end)
    }

    /// Creates the file if it does not exist, and flushes it to the disk if a record asks for that, so that the record
    /// survives a crash of the machine. Returns the number of the last record in the file that is as durable as it asks for;
    /// `None` if a save has ended the journal.
    pub(super) fn complete(&self) -> Result<Option<u64>, SessionError> {
        let Some(file) = self.create()? else { return Ok(None) };
        let (records, is_named) = match &*locked(&self.state) {
            None => return Ok(None),
            Some(state) if state.to_flush <= state.acknowledged.flushed => {
                return Ok(Some(state.acknowledged.records));
            }
            Some(state) => (state.acknowledged.records, state.is_named),
        };
        file.sync_data().map_err(SessionError::io(&self.path, "flushed to the disk"))?;
        if !is_named {
            flush_directory(&self.path);
            self.mark(JournalMark::Flushed);
        }
        let mut state = locked(&self.state);
        // A save may have begun another journal meanwhile.
        if let Some(state) = state.as_mut().filter(|state| state.target.is(&file)) {
            state.is_named = true;
            state.acknowledged.flushed = state.acknowledged.flushed.max(records);
            let mut line = Vec::with_capacity(MARK);
            state.acknowledged.append_to(&mut line);
            state.write(&line, state.mark, &self.path)?;
        }
        Ok(Some(records))
    }

    /// Creates the file with the records so far, unless it exists. Returns it; `None` if there are no records since the last
    /// save.
    ///
    /// # Errors
    /// Also when the session was released before.
    pub(super) fn create(&self) -> Result<Option<Arc<File>>, SessionError> {
        let mut lock = locked(&self.lock);
        let bytes = match locked(&self.state).as_ref().map(|state| &state.target) {
            None => return Ok(None),
            Some(Target::File(file)) => return Ok(Some(Arc::clone(file))),
            Some(Target::Memory(bytes)) => bytes.clone(),
        };
        let Some(lock) = lock.as_mut() else {
            return Err(SessionError::store("the session", "written", "its writer was dropped"));
        };
        let file = create_file(&self.path, lock, &bytes)?;
        self.mark(JournalMark::Begun);
        if let Some(state) = locked(&self.state).as_mut() {
            state.move_to(&file, &bytes).map_err(SessionError::io(&self.path, "written"))?;
        }
        Ok(Some(file))
    }

    /// Tells in the session's file that there is a journal. Without it nothing is lost, but a journal that is removed later is
    /// not missed.
    fn mark(&self, mark: JournalMark) {
        if locked(&self.state).as_ref().is_some_and(|state| state.continues_file)
            && let Err(error) = mark_journal(&self.saved, mark)
        {
            tracing::warn!(%error, "a session's file does not tell that it has a journal");
        }
    }

    /// Ends the journal by a save: `replace` replaces the session's file by one that contains all records, and gets the first
    /// and the last one, if there are any.
    pub(super) fn save(
        &self,
        replace: impl FnOnce(Option<SavedJournal>) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        let _lock = locked(&self.lock);
        let records = locked(&self.state).as_ref().and_then(|state| state.records);
        replace(records)?;
        *locked(&self.state) = None;
        files::remove(&self.path)
    }

    /// Releases the session. A flush that runs on another thread is completed.
    pub(super) fn release(&self) {
        *locked(&self.lock) = None;
    }
}

impl State {
    /// Begins a journal with its first record.
    fn begin(
        record: &SessionRecord<'_>,
        summary: Listed<'_>,
        saved: Option<u32>,
    ) -> Result<Self, SessionError> {
        let mut bytes = Vec::new();
        // The session before this record, whose number is not included yet.
        journal::begin(&mut bytes, record.session, saved, record.line).map_err(encode)?;
        let mark = bytes.len();
        let records = mark + MARK + SUMMARY;
        let end = (records + record.line.len() + 1) as u64;
        let acknowledged = Acknowledged::new(record.number, 0);
        acknowledged.append_to(&mut bytes);
        let mut line = SummaryLine::default();
        line.append_to(&mut bytes, record.number, end, summary).map_err(encode)?;
        bytes.resize(records - 1, b' ');
        bytes.push(b'\n');
        bytes.extend_from_slice(record.line);
        bytes.push(b'\n');
        Ok(Self {
            target: Target::Memory(bytes),
            mark: mark as u64,
            acknowledged,
            summary: line,
            end,
            to_flush: flushed(record),
            is_named: false,
            records: SavedJournal::begin(record.line),
            continues_file: saved.is_some(),
        })
    }

    fn append(
        &mut self,
        record: &SessionRecord<'_>,
        summary: Listed<'_>,
        bytes: &mut Vec<u8>,
        path: &Path,
    ) -> Result<(), SessionError> {
        bytes.extend_from_slice(record.line);
        bytes.push(b'\n');
        self.write(bytes, self.end, path)?;
        self.end += bytes.len() as u64;
        self.acknowledged.records = record.number;
        if let (Some(records), Some(last)) = (&mut self.records, lines::Crc::of(record.line)) {
            records.last = last;
        }
        self.to_flush = self.to_flush.max(flushed(record));
        bytes.clear();
        self.acknowledged.append_to(bytes);
        self.summary.append_to(bytes, record.number, self.end, summary).map_err(encode)?;
        self.write(bytes, self.mark, path)
    }

    fn write(&mut self, bytes: &[u8], offset: u64, path: &Path) -> Result<(), SessionError> {
        let written = match &mut self.target {
            Target::File(file) => write_at(file, bytes, offset),
            Target::Memory(content) => {
                let mut cursor = Cursor::new(content);
                cursor.set_position(offset);
                cursor.write_all(bytes)
            }
        };
        written.map_err(SessionError::io(path, "written"))
    }

    /// Writes further records to the file, which was created with `created`.
    fn move_to(&mut self, file: &Arc<File>, created: &[u8]) -> std::io::Result<()> {
        if let Target::Memory(content) = &self.target
            && content != created
        {
            write_at(file, content.get(created.len()..).unwrap_or_default(), created.len() as u64)?;
            // The lines before the records are written after the records, as in an append.
            let mark = usize::try_from(self.mark).unwrap_or_default();
            let lines = content.get(mark..mark + MARK + SUMMARY).unwrap_or_default();
            write_at(file, lines, self.mark)?;
        }
        self.target = Target::File(Arc::clone(file));
        Ok(())
    }
}

impl Target {
    fn is(&self, file: &Arc<File>) -> bool {
        matches!(self, Self::File(other) if Arc::ptr_eq(other, file))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of the record if it must be flushed, and 0 otherwise.
fn flushed(record: &SessionRecord<'_>) -> u64 {
    match record.durability {
        Durability::Buffered => 0,
        _ => record.number,
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
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = bytes.get(written..).unwrap_or_default();
        offset += written as u64;
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests;
