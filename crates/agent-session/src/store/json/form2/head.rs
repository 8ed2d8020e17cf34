//! Reads the first lines of the file of a session.

use std::io::BufRead;
use std::path::Path;

use serde::Deserialize;

use super::super::super::SessionSummary;
use super::super::super::lines;
use super::super::super::summary::Waits;
use super::begin::needs_journal;
use crate::error::SessionError;

/// What a list needs of a file.
pub(in super::super) struct FileHead {
    pub(in super::super) summary: SessionSummary,
    pub(in super::super) waits: Option<Waits>,
    /// The number of the last journal record that the file contains.
    pub(in super::super) journal_records: u64,
    /// Whether the session has a journal.
    pub(in super::super) needs_journal: bool,
}

/// Reads the summary of a session, which is at the beginning of the file.
///
/// # Errors
/// When the file cannot be read, or its beginning is damaged.
pub(in super::super) fn read_head(
    path: &Path,
    file: &mut impl BufRead,
    id: &str,
) -> Result<FileHead, SessionError> {
    #[derive(Deserialize)]
    struct Head {
        session: Numbers,
        summary: SessionSummary,
        #[serde(default)]
        waits: Option<Waits>,
    }
    #[derive(Deserialize)]
    struct Numbers {
        #[serde(default)]
        journal_records: u64,
    }
    let corrupt = |reason: String| SessionError::corrupt(path, "line 2", reason);
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line).map_err(SessionError::io(path, "read"))?;
    let needs_journal = needs_journal(&line).unwrap_or_default();
    line.clear();
    file.read_until(b'\n', &mut line).map_err(SessionError::io(path, "read"))?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    let line = line.strip_suffix(b",").unwrap_or(line);
    let Head { session, summary, waits } = lines::parse(line).map_err(corrupt)?;
    if summary.session_id != *id {
        return Err(corrupt(format!("the file holds session {:?}", summary.session_id)));
    }
    Ok(FileHead { summary, waits, journal_records: session.journal_records, needs_journal })
}
