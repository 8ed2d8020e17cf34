//! Writes sessions to rows.

use agent_core::SessionId;
use rusqlite::{Transaction, params};

use super::super::database::{Encoded, SealedLine, Words, messages, number, status_name, words_of};
use super::super::lines::Crc;
use super::super::summary::{SessionSummary, Waits};
use super::Failure;
use super::lookup::row_of;
use crate::error::SessionError;
use crate::model::Session;

/// The row of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) row: i64,
    /// The number of its lines.
    pub(super) lines: u64,
}

/// A whole session in the form of rows, with the words of its messages.
pub(super) struct Whole<'a> {
    session: &'a Session,
    rows: Encoded,
    words: Words,
    /// The words of each message, if they replace others.
    indexed: Vec<String>,
}

impl<'a> Whole<'a> {
    pub(super) fn new(session: &'a Session, words: Words) -> Result<Self, SessionError> {
        let indexed = match words {
            Words::Kept => Vec::new(),
            Words::Replaced => messages(session).map(words_of).collect(),
        };
        Ok(Self { session, rows: Encoded::new(session)?, words, indexed })
    }

    /// The size of all lines.
    pub(super) fn bytes(&self) -> u64 {
        self.rows.bytes
    }

    /// Writes the session and deletes its records.
    pub(super) fn put(&self, t: &Transaction<'_>) -> Result<Stored, Failure> {
        let row = match row_of(t, self.session.session_id.as_str())? {
            Some(row) => row,
            None => insert(t, &self.session.session_id)?,
        };
        let stored = Stored { row, lines: self.rows.lines.len() as u64 };
        let mut statement = t.prepare_cached(
            "INSERT INTO lines (session, n, line) VALUES (?1, ?2, ?3)
             ON CONFLICT DO UPDATE SET line = excluded.line WHERE line IS NOT excluded.line",
        )?;
        for (n, line) in self.rows.lines.iter().enumerate() {
            statement.execute(params![row, number(n as u64), line])?;
        }
        t.prepare_cached("DELETE FROM lines WHERE session = ?1 AND n >= ?2")?
            .execute(params![row, number(stored.lines)])?;
        t.prepare_cached("DELETE FROM records WHERE session = ?1")?.execute([row])?;
        // The rows of version 1.
        t.prepare_cached("DELETE FROM loops WHERE session = ?1")?.execute([row])?;
        self.put_all_words(t, row)?;
        let last = self.rows.lines.last().map(Vec::as_slice).unwrap_or_default();
        let summary = (&self.rows.summary, self.rows.waits.as_ref());
        put_summary(t, stored, summary, (self.session.journal_records, last))?;
        Ok(stored)
    }

    fn put_all_words(&self, t: &Transaction<'_>, row: i64) -> Result<(), Failure> {
        if self.words == Words::Kept {
            let known: i64 = t
                .prepare_cached("SELECT count(*) FROM said WHERE session = ?1")?
                .query_row([row], |row| row.get(0))?;
            if usize::try_from(known) == Ok(messages(self.session).count()) {
                return Ok(());
            }
        }
        t.prepare_cached("DELETE FROM said WHERE session = ?1")?.execute([row])?;
        match self.words {
            Words::Kept => messages(self.session).try_for_each(|m| put_words(t, row, &words_of(m))),
            Words::Replaced => self.indexed.iter().try_for_each(|words| put_words(t, row, words)),
        }
    }
}

/// Inserts the row of a new session.
fn insert(t: &Transaction<'_>, id: &SessionId) -> Result<i64, Failure> {
    let row = t
        .prepare_cached(
            "INSERT INTO sessions (id, agent, created_at, last_active_at, loops, messages, input, output, reasoning,
                 cache_read, cache_write, tokens, cost, changed, head)
             VALUES (?1, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '') RETURNING session",
        )?
        .query_row([id.as_str()], |row| row.get(0))?;
    t.prepare_cached("INSERT INTO ids (id, session) VALUES (?1, ?2)")?.execute(params![id.as_str(), row])?;
    Ok(row)
}

/// Writes the summary of a session and the columns for filters, of which those of version 1 alone are emptied. `last` is the
/// last row, and `records` the number of the last record.
pub(super) fn put_summary(
    t: &Transaction<'_>,
    Stored { row, lines }: Stored,
    (s, waits): (&SessionSummary, Option<&Waits>),
    (records, last): (u64, &[u8]),
) -> Result<(), Failure> {
    t.prepare_cached(
        "UPDATE sessions SET agent = ?2, created_at = ?3, last_active_at = ?4, parent = ?5, status = ?6, tokens = ?7,
             cost = ?8, sealed = ?9, title = NULL, head = '', changed = (SELECT coalesce(max(changed), 0) + 1 FROM sessions)
         WHERE session = ?1",
    )?
    .execute(params![
        row,
        s.agent_id.as_str(),
        number(s.created_at.0),
        number(s.last_active_at.0),
        s.parent_session_id.as_ref().map(SessionId::as_str),
        s.status.map(status_name),
        number(s.usage.total_tokens),
        number(s.cost_micros),
        SealedLine { lines, records, tail: Crc::of(last), summary: s, waits }.line()?,
    ])?;
    let mut statement = t.prepare_cached("INSERT OR IGNORE INTO models (session, model) VALUES (?1, ?2)")?;
    for model in &s.models {
        statement.execute(params![row, model])?;
    }
    Ok(())
}

/// Deletes a session, and returns whether there was one.
pub(super) fn delete(t: &Transaction<'_>, id: &str) -> Result<bool, Failure> {
    let Some(row) = row_of(t, id)? else { return Ok(false) };
    t.execute("DELETE FROM ids WHERE id = ?1", [id])?;
    t.execute("DELETE FROM sessions WHERE session = ?1", [row])?;
    Ok(true)
}

/// Writes the words of a message of a session.
pub(super) fn put_words(t: &Transaction<'_>, row: i64, words: &str) -> Result<(), Failure> {
    t.prepare_cached("INSERT INTO said (session) VALUES (?1)")?.execute([row])?;
    t.prepare_cached("INSERT INTO said_words (rowid, words) VALUES (?1, ?2)")?
        .execute(params![t.last_insert_rowid(), words])?;
    Ok(())
}
