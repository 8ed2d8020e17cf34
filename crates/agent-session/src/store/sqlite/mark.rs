//! The number of the last acknowledged transaction, in a file beside the database.
//!
//! SQLite drops the end of a damaged write-ahead log without an error, and treats an empty file as a new database. The file
//! is written after each transaction, so that a database that lacks acknowledged ones is detected when it is opened. It has
//! the form of the second line of a journal.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use agent_core::journal::Durability;

use super::super::files::{self, owner_only};
use super::super::journal::{Acknowledged, MARK};
use crate::error::SessionError;

/// The open file. Several processes write it.
#[derive(Debug)]
pub(super) struct Mark {
    path: PathBuf,
    file: File,
}

/// The limit for reading the file, which is shorter unless it is damaged.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the path of the file beside a database.
pub(super) fn path_of(database: &Path) -> PathBuf {
    let mut name = database.file_name().unwrap_or_default().to_os_string();
    name.push(".mark");
    database.with_file_name(name)
}

/// Returns the number of the last transaction that a database must have; 0 without a file. A database that does not exist
/// loses the file of the deleted one.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub(super) fn required(database: &Path) -> Result<u64, SessionError> {
    let path = path_of(database);
    if let Err(error) = std::fs::symlink_metadata(database)
        && error.kind() == ErrorKind::NotFound
    {
        files::remove(&path)?;
        return Ok(0);
    }
    let Some((mut file, size)) = files::open(&path, MAX_BYTES)? else { return Ok(0) };
    let mut bytes = Vec::with_capacity(size);
    // Another process can be writing it.
    let mut read_all = || file.lock_shared().and_then(|()| file.read_to_end(&mut bytes));
    read_all().map_err(SessionError::io(&path, "read"))?;
    // A process was killed before it wrote the first number.
    if bytes.is_empty() {
        return Ok(0);
    }
    match read(&bytes) {
        Ok(acknowledged) => Ok(acknowledged.required()),
        Err(reason) => Err(SessionError::corrupt(&path, "line 1", reason)),
    }
}

fn read(bytes: &[u8]) -> Result<Acknowledged, String> {
    Acknowledged::read(bytes.strip_suffix(b"\n").unwrap_or(bytes))
}

impl Mark {
    pub(super) fn open(database: &Path) -> Result<Self, SessionError> {
        let path = path_of(database);
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        owner_only(&mut options);
        let file = options.open(&path).map_err(SessionError::io(&path, "opened"))?;
        Ok(Self { path, file })
    }

    /// Notes a transaction that was committed.
    pub(super) fn note(&self, number: u64, durability: Durability) -> Result<(), SessionError> {
        self.write(|known| {
            let flushed = if durability == Durability::Buffered { 0 } else { number };
            Acknowledged::new(known.required().max(number), known.flushed.max(flushed))
        })
    }

    /// Forgets the transactions after this one, which were lost.
    pub(super) fn reset(&self, number: u64) -> Result<(), SessionError> {
        self.write(|_| Acknowledged::new(number, 0))
    }

    fn write(&self, next: impl FnOnce(&Acknowledged) -> Acknowledged) -> Result<(), SessionError> {
        let update = || -> std::io::Result<()> {
            self.file.lock()?;
            let mut file = &self.file;
            let mut line = Vec::with_capacity(MARK);
            file.seek(SeekFrom::Start(0))?;
            file.take(MARK as u64).read_to_end(&mut line)?;
            let known = read(&line).unwrap_or_default();
            file.seek(SeekFrom::Start(0))?;
            line.clear();
            next(&known).append_to(&mut line);
            file.write_all(&line)?;
            self.file.unlock()
        };
        update().map_err(SessionError::io(&self.path, "written"))
    }
}
