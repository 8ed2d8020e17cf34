//! Reads sessions from rows.

use rusqlite::Transaction;

use super::super::journal::{FORM, Lines};
use super::super::json::form2::LineReader;
use super::lookup::row_of;
use super::sealed::Sealed;
use super::{Failure, SqliteStore, form1};
use crate::error::SessionError;
use crate::model::Session;
use crate::model::stored::Gaps;

/// The size of the lines and records of a session.
const OF_LINES: &str = "SELECT (SELECT coalesce(sum(octet_length(line)), 0) FROM lines WHERE session = ?1)
     + (SELECT coalesce(sum(octet_length(line)), 0) FROM records WHERE session = ?1)";

/// Returns the column `sealed` of a session; `None` if version 1 stored it.
pub(super) fn sealed(t: &Transaction<'_>, row: i64) -> Result<Option<Vec<u8>>, Failure> {
    Ok(t.prepare_cached("SELECT sealed FROM sessions WHERE session = ?1")?
        .query_row([row], |row| row.get(0))?)
}

impl SqliteStore {
    /// Reads the stored session. Open loops are unchanged.
    pub(super) fn read_session(&self, id: &str) -> Result<Session, SessionError> {
        super::id::check(id)?;
        let found = self.shared.read("read", |t| {
            let Some(row) = row_of(t, id)? else { return Ok(None) };
            let session = match sealed(t, row)? {
                Some(line) => {
                    let bytes = self.check_size(t, row, OF_LINES)?;
                    let sealed =
                        Sealed::read(&line, id).map_err(|e| Failure::damaged(id, "its summary", e))?;
                    lines(t, id, row, &sealed, bytes)?
                }
                None => {
                    self.check_size(t, row, form1::SIZE)?;
                    form1::Rows::read(t, row)?.session(&self.shared.path, id)?
                }
            };
            Ok(Some(session))
        })?;
        found.ok_or_else(|| self.not_found(id))
    }

    /// Checks the size of a session's rows, which `size` selects, before they are read, and returns it.
    fn check_size(&self, t: &Transaction<'_>, row: i64, size: &str) -> Result<usize, Failure> {
        let bytes: i64 = t.prepare_cached(size)?.query_row([row], |row| row.get(0))?;
        if u64::try_from(bytes).is_ok_and(|bytes| bytes > self.max_session_bytes) {
            let path = self.shared.path.clone();
            return Err(SessionError::TooLarge { path, limit: self.max_session_bytes }.into());
        }
        Ok(usize::try_from(bytes).unwrap_or_default())
    }
}

/// Builds a session from its lines and records.
fn lines(t: &Transaction<'_>, id: &str, row: i64, sealed: &Sealed, bytes: usize) -> Result<Session, Failure> {
    let mut reader = LineReader::new(id, bytes, Gaps::Refused);
    let mut statement = t.prepare_cached("SELECT line FROM lines WHERE session = ?1 ORDER BY n")?;
    let mut found = statement.query([row])?;
    let mut n = 0;
    while let Some(line) = found.next()? {
        let line = line.get_ref(0)?.as_bytes().map_err(|e| e.to_string());
        line.and_then(|line| reader.take(line)).map_err(|e| Failure::damaged(id, &format!("line {n}"), e))?;
        n += 1;
    }
    if !reader.is_complete() || n != sealed.lines {
        return Err(Failure::damaged(id, &format!("line {n}"), reader.missing()));
    }
    let recording = reader.finish().map_err(|e| Failure::damaged(id, "a loop", e))?;
    let Some(recording) = recording else {
        return Err(Failure::damaged(id, "its lines", "there is no session".to_owned()));
    };
    let mut lines = Lines::new(recording, FORM, bytes);
    let mut statement =
        t.prepare_cached("SELECT number, line FROM records WHERE session = ?1 ORDER BY number")?;
    let mut found = statement.query([row])?;
    while let Some(record) = found.next()? {
        let number: i64 = record.get(0)?;
        let line = record.get_ref(1)?.as_bytes().map_err(|e| e.to_string());
        let taken = line.and_then(|line| lines.take(line));
        taken.map_err(|e| Failure::damaged(id, &format!("record {number}"), e))?;
    }
    let session = lines.finish().session;
    if session.journal_records != sealed.records {
        let (found, last) = (session.journal_records, sealed.records);
        let reason = format!("they end with number {found}, and number {last} was acknowledged");
        return Err(Failure::damaged(id, "its records", reason));
    }
    Ok(session)
}
