//! Salvages a damaged session of the database.

use rusqlite::{OptionalExtension, Transaction, params};

use super::super::database::{Part, RowSource, Rows, Sealed, number};
use super::super::salvage::{self, Loss, Salvaged};
use super::lookup::rows_of;
use super::read::sealed;
use super::{Failure, SqliteStore, form1};
use crate::error::SessionError;

impl SqliteStore {
    /// Returns the readable part of a session's rows.
    pub(super) fn salvage(&self, id: &str) -> Result<Salvaged, SessionError> {
        let why = match self.read_session(id) {
            Ok(session) => return Ok(Salvaged { session, losses: Vec::new() }),
            Err(error @ SessionError::Corrupt { .. }) => error,
            Err(other) => return Err(other),
        };
        let found = self.shared.read("read", |t| {
            for row in rows_of(t, id) {
                if let Some(salvaged) = self.salvage_row(t, id, row)? {
                    return Ok(Some(salvaged));
                }
            }
            Ok(None)
        })?;
        let Some(mut salvaged) = found else { return Err(why) };
        if salvaged.losses.is_empty() {
            let mut loss = Loss::of(&self.shared.path, &why);
            if !loss.place.contains("session ") {
                loss.place = format!("{}: session {id}", self.shared.path.display());
            }
            salvaged.losses.push(loss);
        }
        Ok(salvaged)
    }

    fn salvage_row(&self, t: &Transaction<'_>, id: &str, row: i64) -> Result<Option<Salvaged>, Failure> {
        let path = &self.shared.path;
        let sealed = match sealed(t, row) {
            Ok(None) => return Ok(Some(form1::Rows::read(t, row)?.salvage(path, id)?)),
            Ok(Some(line)) => Sealed::read(&line, id),
            Err(failure) if failure.is_damage() => Err(Loss::of(path, &failure.named(path, "read")).reason),
            Err(failure) => return Err(failure),
        };
        let place = format!("{}: session {id}", path.display());
        let mut part = Part::new(TableRows { t, row }, place);
        let sealed = sealed.map_err(|reason| part.lose("its summary", reason)).ok();
        let session =
            part.session(id, sealed.as_ref(), usize::try_from(self.max_session_bytes).unwrap_or(usize::MAX));
        Ok(session.map(|session| Salvaged { session: salvage::closed(session), losses: part.losses }))
    }
}

/// The rows of a session of which some are damaged.
struct TableRows<'a> {
    t: &'a Transaction<'a>,
    row: i64,
}

impl RowSource for TableRows<'_> {
    fn row(&self, rows: Rows, n: u64) -> Result<Vec<u8>, String> {
        let sql = match rows {
            Rows::Lines => "SELECT line FROM lines WHERE session = ?1 AND n = ?2",
            Rows::Records => "SELECT line FROM records WHERE session = ?1 AND number = ?2",
        };
        let read = || -> Result<Option<Vec<u8>>, rusqlite::Error> {
            let mut statement = self.t.prepare_cached(sql)?;
            // A row of another type has no checksum.
            let bytes = statement.query_row(params![self.row, number(n)], |row| {
                Ok(row.get_ref(0)?.as_bytes().map(<[u8]>::to_vec).unwrap_or_default())
            });
            bytes.optional()
        };
        read().map_err(|e| e.to_string())?.ok_or_else(|| "it is missing".to_owned())
    }

    fn range(&self, rows: Rows) -> Option<(u64, u64)> {
        // Two statements each, so that a damaged page between the two does not hide them.
        let [first, last] = match rows {
            Rows::Lines => [
                "SELECT n FROM lines WHERE session = ?1 ORDER BY n LIMIT 1",
                "SELECT n FROM lines WHERE session = ?1 ORDER BY n DESC LIMIT 1",
            ],
            Rows::Records => [
                "SELECT number FROM records WHERE session = ?1 ORDER BY number LIMIT 1",
                "SELECT number FROM records WHERE session = ?1 ORDER BY number DESC LIMIT 1",
            ],
        };
        let find = |sql| {
            let number: i64 = self.t.query_row(sql, [self.row], |row| row.get(0)).ok()?;
            u64::try_from(number).ok()
        };
        // Where only one of them can be found, the list is read from there, or until there.
        let (first, last) = (find(first), find(last));
        Some((first.or(last)?, last.or(first)?))
    }
}
