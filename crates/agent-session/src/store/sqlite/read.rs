//! Reads sessions from rows.

use rusqlite::Transaction;

use super::super::database::{Damage, Sealed, StoredRows};
use super::lookup::row_of;
use super::{Failure, SqliteStore, form1};
use crate::error::SessionError;
use crate::model::Session;

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
    let damaged = |damage: Damage| Failure::damaged(id, &damage.place, damage.reason);
    let mut rows = StoredRows::new(id, sealed, bytes);
    let mut statement = t.prepare_cached("SELECT line FROM lines WHERE session = ?1 ORDER BY n")?;
    let mut found = statement.query([row])?;
    while let Some(line) = found.next()? {
        // A row of another type has no checksum.
        let line = line.get_ref(0)?.as_bytes().unwrap_or_default();
        rows.line(line).map_err(damaged)?;
    }
    let mut records = rows.records().map_err(damaged)?;
    let mut statement =
        t.prepare_cached("SELECT number, line FROM records WHERE session = ?1 ORDER BY number")?;
    let mut found = statement.query([row])?;
    while let Some(record) = found.next()? {
        // A row of another type has no checksum.
        let line = record.get_ref(1)?.as_bytes().unwrap_or_default();
        records.record(record.get(0)?, line).map_err(damaged)?;
    }
    records.finish().map_err(damaged)
}
