//! Salvages a damaged session of the database.

use rusqlite::{OptionalExtension, Transaction, params};

use super::super::journal::{FORM, Lines};
use super::super::json::form2::LineReader;
use super::super::salvage::{self, Loss, Salvaged};
use super::lookup::rows_of;
use super::read::sealed;
use super::rows::number;
use super::sealed::Sealed;
use super::{Failure, SqliteStore, form1};
use crate::error::SessionError;
use crate::model::Session;
use crate::model::recording::Recording;
use crate::model::stored::Gaps;

/// The number of missing rows after which a list ends, if its length is not known.
const MAX_MISSING: usize = 64;

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
            let place = format!("{}: session {id}", self.shared.path.display());
            salvaged.losses.push(Loss::new(place, why.to_string()));
        }
        Ok(salvaged)
    }

    fn salvage_row(&self, t: &Transaction<'_>, id: &str, row: i64) -> Result<Option<Salvaged>, Failure> {
        let path = &self.shared.path;
        let sealed = match sealed(t, row) {
            Ok(None) => return Ok(Some(form1::Rows::read(t, row)?.salvage(path, id)?)),
            Ok(Some(line)) => Sealed::read(&line, id),
            Err(failure) if failure.is_damage() => Err(failure.named(path, "read").to_string()),
            Err(failure) => return Err(failure),
        };
        let place = format!("{}: session {id}", path.display());
        let mut part = Part { t, row, place, losses: Vec::new() };
        let sealed = sealed.map_err(|reason| part.lose("its summary", reason)).ok();
        let session =
            part.session(id, sealed.as_ref(), usize::try_from(self.max_session_bytes).unwrap_or(usize::MAX));
        Ok(session.map(|session| Salvaged { session: salvage::closed(session), losses: part.losses }))
    }
}

/// The rows of a session of which some are damaged.
struct Part<'a> {
    t: &'a Transaction<'a>,
    row: i64,
    place: String,
    losses: Vec<Loss>,
}

impl Part<'_> {
    fn lose(&mut self, place: &str, reason: String) {
        self.losses.push(Loss::new(format!("{}, {place}", self.place), reason));
    }

    /// Returns the session with every line and record that is intact.
    fn session(&mut self, id: &str, sealed: Option<&Sealed>, bytes: usize) -> Option<Session> {
        let end = sealed.map(|sealed| sealed.records.saturating_add(1));
        let mut reader = LineReader::new(id, bytes, Gaps::Filled);
        let sql = "SELECT line FROM lines WHERE session = ?1 AND n = ?2";
        self.each("line", sql, 0, sealed.map(|sealed| sealed.lines), |line| reader.take(line));
        let recording = reader.finish().map_err(|reason| self.lose("a loop", reason)).ok()?;
        let recording = recording.or_else(|| {
            let summary = &sealed?.summary;
            Some(Recording::new(Session::new(id.into(), summary.agent_id.clone(), summary.created_at)))
        })?;
        let next = match recording.session.journal_records {
            // The session was never saved, or its own line is damaged.
            0 => self.first_record(end),
            saved => saved.saturating_add(1),
        };
        let mut lines = Lines::new(recording, FORM, bytes).with_gaps(Gaps::Filled);
        let sql = "SELECT line FROM records WHERE session = ?1 AND number = ?2";
        self.each("record", sql, next, end, |line| lines.take(line));
        Some(lines.finish().session)
    }

    /// Returns the number of the first record that can be found; `end` if there is none.
    fn first_record(&self, end: Option<u64>) -> u64 {
        let sql = "SELECT number FROM records WHERE session = ?1 ORDER BY number LIMIT 1";
        let first = self.t.query_row(sql, [self.row], |row| row.get::<_, i64>(0));
        let first = first.ok().and_then(|number| u64::try_from(number).ok());
        first.or(end).unwrap_or(1)
    }

    /// Passes each row of a list to `take`, one by one, so that a damaged page hides no row of another one.
    fn each(
        &mut self,
        name: &str,
        sql: &str,
        first: u64,
        end: Option<u64>,
        mut take: impl FnMut(&[u8]) -> Result<(), String>,
    ) {
        let mut missing = Vec::new();
        let mut n = first;
        while end.map_or(missing.len() < MAX_MISSING, |end| n < end) {
            match self.line(sql, n) {
                Err(reason) => missing.push((n, reason)),
                Ok(line) => {
                    for (n, reason) in missing.drain(..) {
                        self.lose(&format!("{name} {n}"), reason);
                    }
                    if let Err(reason) = take(&line) {
                        self.lose(&format!("{name} {n}"), reason);
                    }
                }
            }
            n += 1;
        }
        // Behind the last row of a list of unknown length there may be none.
        for (n, reason) in missing.into_iter().filter(|_| end.is_some()) {
            self.lose(&format!("{name} {n}"), reason);
        }
    }

    fn line(&self, sql: &str, n: u64) -> Result<Vec<u8>, String> {
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
}
