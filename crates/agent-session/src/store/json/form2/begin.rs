//! The first line of a session's file, which tells whether the session has a journal.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use super::super::super::journal::boot;
use crate::error::SessionError;

/// The first line of a file without a mark.
const PLAIN: &[u8] = b"{\"version\":2,\"lines\":[\n";

/// The parts of the first line before and after the mark.
const BEFORE: &[u8] = b"{\"version\":2,\"journal\":\"";
const AFTER: &[u8] = b"\",\"lines\":[\n";

/// The length of the mark.
const LENGTH: usize = 40;

/// The marks of a session without a journal, and of one whose journal was flushed to the disk. Another one is the id of
/// the start of the machine after which the journal began.
const NONE: &str = "none";
const FLUSHED: &str = "flushed";

/// Whether a session has a journal beside its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum JournalMark {
    /// It has none.
    Absent,
    /// It was begun, and is lost if the machine crashes now.
    Begun,
    /// It was flushed to the disk.
    Flushed,
}

impl JournalMark {
    fn text(self) -> [u8; LENGTH] {
        let text = match self {
            Self::Absent => NONE,
            Self::Begun => boot(),
            Self::Flushed => FLUSHED,
        };
        let mut mark = [b' '; LENGTH];
        mark.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
        mark
    }
}

/// Returns the first line of a file whose session has no journal.
pub(super) fn first_line() -> Vec<u8> {
    [BEFORE, &JournalMark::Absent.text(), AFTER].concat()
}

/// Returns whether a file that begins with these bytes has this form.
pub(in super::super) fn is_begun_by(bytes: &[u8]) -> bool {
    bytes.starts_with(PLAIN) || bytes.starts_with(BEFORE)
}

/// Reads the first line, and returns whether the session must have a journal; `None` if it is another line.
pub(super) fn needs_journal(line: &[u8]) -> Option<bool> {
    if line == PLAIN {
        return Some(false);
    }
    let mark = line.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
    let mark = std::str::from_utf8(mark).ok().filter(|mark| mark.len() == LENGTH)?.trim_ascii_end();
    let is_of_this_boot = !mark.is_empty() && mark == boot();
    Some(mark == FLUSHED || is_of_this_boot)
}

/// Writes into a file that was written with [`first_line`] whether its session has a journal. Does nothing if the file does
/// not exist. The caller has the lock of the session.
///
/// # Errors
/// When the file cannot be written.
pub(in super::super) fn mark_journal(path: &Path, mark: JournalMark) -> Result<(), SessionError> {
    let file = match File::options().write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SessionError::io(path, "opened")(error)),
    };
    super::super::journal_file::write_at(&file, &mark.text(), BEFORE.len() as u64)
        .map_err(SessionError::io(path, "written"))
}
