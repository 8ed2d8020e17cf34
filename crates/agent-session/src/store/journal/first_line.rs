//! Reads the first line of a journal, and compares it with the session's file.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::super::lines;
use super::super::version::check_version;
use super::replay::{FORM, Files, Saved};
use super::saved_journal::SALVAGE;
use crate::error::SessionError;
use crate::model::Session;

/// How a session's file is not the one that a journal continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// It is another version of it.
    Version,
    /// It contains the records of another journal.
    History,
}

/// The first line of a journal.
pub(super) struct Head {
    pub(super) session: Session,
    pub(super) form: u32,
    /// The digest of the session's file when the journal began; `None` if there was none.
    pub(super) file: Option<u32>,
    /// The checksum of the first record.
    pub(super) first: Option<lines::Crc>,
}

impl Head {
    /// Returns why the file of the session is not the one that the journal continues; `None` if it is, or if it was saved
    /// after a record of the journal.
    pub(super) fn contradicts(&self, files: Files<'_>, base: Option<&Saved>) -> Option<(Difference, String)> {
        let (begun, file) = (self.session.journal_records, files.saved.display());
        let Some(base) = base else {
            let is_missing = begun > 0 || self.file.is_some();
            let text = || {
                format!(
                    "the session's file {file}, which this journal continues, is missing; put it back, or {SALVAGE}"
                )
            };
            return is_missing.then(|| (Difference::Version, text()));
        };
        let saved = base.recording.session.journal_records;
        if self.form != FORM || base.form != FORM {
            return None;
        }
        if saved == begun {
            let is_another = base.digest.is_some_and(|digest| self.file != Some(digest));
            let text =
                || format!("the session's file {file} is not the one that this journal continues; {SALVAGE}");
            return is_another.then(|| (Difference::Version, text()));
        }
        if saved < begun {
            let text = format!(
                "it continues from record {begun}, and the session's file {file} ends with record {saved}: the file is an older \
                 copy; put the newer one back, or {SALVAGE}"
            );
            return Some((Difference::Version, text));
        }
        // The file was saved after the journal began, so it contains records of it.
        let known = base.journal.filter(|_| saved > begun)?;
        let is_another = self.first.is_some_and(|first| first != known.first);
        let text = || {
            format!(
                "this journal and the session's file {file} are of two histories of the session: the file contains the records \
                 of another journal; move one of the two away, or {SALVAGE}"
            )
        };
        is_another.then(|| (Difference::History, text()))
    }
}

/// Reads the first line of a journal's file: the session without its loops.
pub(super) fn read_head(path: &Path, line: &[u8], id: &str) -> Result<Head, SessionError> {
    let corrupt = |reason: String| SessionError::corrupt(path, "line 1", reason);
    let is_sealed = !line.starts_with(b"{\"journal\":1,");
    if is_sealed {
        lines::open(line).map_err(corrupt)?;
    }
    let mut value: Value = serde_json::from_slice(line).map_err(|e| corrupt(e.to_string()))?;
    let form = check_version(path, "line 1", value.get("journal"), FORM)?;
    if is_sealed != (form == FORM) {
        return Err(corrupt("it has no checksum".to_owned()));
    }
    let head = value.get_mut("head").map(Value::take);
    let head = head.ok_or_else(|| corrupt("the first line has no head".to_owned()))?;
    let session = Session::from_value(head).map_err(|e| corrupt(e.to_string()))?;
    if session.session_id != *id {
        return Err(corrupt(format!("it belongs to session {:?}", session.session_id)));
    }
    let file = value.get("file").and_then(Value::as_u64).and_then(|file| u32::try_from(file).ok());
    let first = value.get("first").and_then(|first| lines::Crc::deserialize(first).ok());
    Ok(Head { session, form, file, first })
}
