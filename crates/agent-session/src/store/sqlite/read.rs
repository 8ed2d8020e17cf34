//! Reads sessions from rows.

use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use super::super::journal::{Lines, form_of};
use super::super::salvage::{self, Loss, Salvaged};
use super::super::version::check_version;
use super::{Failure, SqliteStore};
use crate::error::SessionError;
use crate::model::recording::Recording;
use crate::model::{SESSION_VERSION, Session};

/// The rows of a session.
struct Rows {
    head: String,
    loops: Vec<LoopRow>,
    records: Vec<(i64, String)>,
}

struct LoopRow {
    id: String,
    body: String,
    own: Vec<String>,
    other: Vec<String>,
}

impl SqliteStore {
    /// Reads the stored session. Open loops are unchanged.
    pub(super) fn read_session(&self, id: &str) -> Result<Session, SessionError> {
        let rows = self.rows(id)?;
        let corrupt = |place: String, reason: String| {
            SessionError::corrupt(&self.shared.path, format!("session {id}, {place}"), reason)
        };
        let mut value = self.head(id, &rows.head)?;
        let mut loops = Vec::with_capacity(rows.loops.len());
        for (at, row) in rows.loops.iter().enumerate() {
            let record =
                row.value().map_err(|(place, reason)| corrupt(format!("loops[{at}]{place}"), reason))?;
            if record.get("loop_id").and_then(Value::as_str) != Some(&row.id) {
                return Err(corrupt(
                    format!("loops[{at}].loop_id"),
                    format!("its row is that of {:?}", row.id),
                ));
            }
            loops.push(record);
        }
        if let Some(map) = value.as_object_mut() {
            map.insert("loops".to_owned(), Value::Array(loops));
        }
        let session = Session::from_value(value).map_err(|e| corrupt(e.place, e.reason))?;
        if rows.records.is_empty() {
            return Ok(session);
        }
        let bytes = rows.records.iter().map(|(_, line)| line.len()).sum();
        let mut lines = Lines::new(
            Recording::new(session),
            form_of(rows.records.first().map(|(_, line)| line.as_bytes())),
            bytes,
        );
        for (number, line) in &rows.records {
            lines.take(line.as_bytes()).map_err(|reason| corrupt(format!("record {number}"), reason))?;
        }
        Ok(lines.finish().session)
    }

    fn head(&self, id: &str, head: &str) -> Result<Value, SessionError> {
        let corrupt = |place: &str, reason: String| {
            SessionError::corrupt(&self.shared.path, format!("session {id}, {place}"), reason)
        };
        let value: Value = serde_json::from_str(head).map_err(|e| corrupt("head", e.to_string()))?;
        check_version(
            &self.shared.path,
            &format!("session {id}, head.version"),
            value.get("version"),
            SESSION_VERSION,
        )?;
        let named = value.get("session_id").and_then(Value::as_str).unwrap_or_default();
        if named != id {
            return Err(corrupt("head.session_id", format!("the row holds session {named:?}")));
        }
        Ok(value)
    }

    fn rows(&self, id: &str) -> Result<Rows, SessionError> {
        super::id::check(id)?;
        let found = self.shared.read("read", |t| {
            let head: Option<(i64, String)> = t
                .prepare_cached("SELECT session, head FROM sessions WHERE id = ?1")?
                .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((session, head)) = head else { return Ok(None) };
            self.check_size(t, session)?;
            let loops = loops(t, session)?;
            let records = t
                .prepare_cached("SELECT number, line FROM records WHERE session = ?1 ORDER BY number")?
                .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            Ok(Some(Rows { head, loops, records }))
        })?;
        found.ok_or_else(|| self.not_found(id))
    }

    /// Checks the size of a session's rows before they are read.
    fn check_size(&self, t: &Transaction<'_>, session: i64) -> Result<(), Failure> {
        let bytes: i64 = t
            .prepare_cached(
                "SELECT (SELECT coalesce(sum(octet_length(body)), 0) FROM loops WHERE session = ?1)
                 + (SELECT coalesce(sum(octet_length(body)), 0) FROM messages WHERE session = ?1)
                 + (SELECT coalesce(sum(octet_length(line)), 0) FROM records WHERE session = ?1)",
            )?
            .query_row([session], |row| row.get(0))?;
        if u64::try_from(bytes).is_ok_and(|bytes| bytes > self.max_session_bytes) {
            let path = self.shared.path.clone();
            return Err(SessionError::TooLarge { path, limit: self.max_session_bytes }.into());
        }
        Ok(())
    }

    /// Returns the readable part of a session's rows.
    pub(super) fn salvage(&self, id: &str) -> Result<Salvaged, SessionError> {
        match self.read_session(id) {
            Ok(session) => return Ok(Salvaged { session, losses: Vec::new() }),
            Err(SessionError::Corrupt { .. }) => {}
            Err(other) => return Err(other),
        }
        let rows = self.rows(id)?;
        let mut losses = Vec::new();
        let place = |place: String| format!("{}: session {id}, {place}", self.shared.path.display());
        let head = self.head(id, &rows.head)?;
        let mut session = Session::from_value(head).map_err(|e| {
            SessionError::corrupt(&self.shared.path, format!("session {id}, {}", e.place), e.reason)
        })?;
        for (at, row) in rows.loops.iter().enumerate() {
            let read = row.value().map_err(|(place, reason)| format!("{place}: {reason}"));
            match read.and_then(salvage::read_loop) {
                Ok((record, lost)) => {
                    losses.extend(lost.map(|reason| Loss::new(place(format!("loops[{at}]")), reason)));
                    session.loops.push(record);
                }
                Err(reason) => losses.push(Loss::new(place(format!("loops[{at}]")), reason)),
            }
        }
        let bytes = rows.records.iter().map(|(_, line)| line.len()).sum();
        let mut lines = Lines::new(
            Recording::new(session),
            form_of(rows.records.first().map(|(_, line)| line.as_bytes())),
            bytes,
        );
        for (number, line) in &rows.records {
            if let Err(reason) = lines.take(line.as_bytes()) {
                losses.push(Loss::new(place(format!("record {number} and those after it")), reason));
                break;
            }
        }
        Ok(Salvaged { session: salvage::closed(lines.finish().session), losses })
    }
}

fn loops(t: &Transaction<'_>, session: i64) -> Result<Vec<LoopRow>, Failure> {
    let mut statement = t.prepare_cached(
        "SELECT loop, id, body, own, other FROM loops WHERE session = ?1 AND body IS NOT NULL ORDER BY position",
    )?;
    let mut messages = t.prepare_cached(
        "SELECT body FROM messages WHERE loop = ?1 AND list = ?2 AND place < ?3 ORDER BY place",
    )?;
    let mut rows = statement.query([session])?;
    let mut loops = Vec::new();
    while let Some(row) = rows.next()? {
        let key: i64 = row.get(0)?;
        let mut list = |list: i64, count: i64| -> Result<Vec<String>, rusqlite::Error> {
            let mut found = messages
                .query_map(params![key, list, count], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()?;
            // A missing message is detected later: an event refers to a position that does not exist.
            found.truncate(usize::try_from(count).unwrap_or_default());
            Ok(found)
        };
        let (own, other) = (list(0, row.get(3)?)?, list(1, row.get(4)?)?);
        loops.push(LoopRow { id: row.get(1)?, body: row.get(2)?, own, other });
    }
    Ok(loops)
}

impl LoopRow {
    /// Returns the loop's JSON with its messages, or the place and the reason of an error.
    fn value(&self) -> Result<Value, (String, String)> {
        let mut value: Value =
            serde_json::from_str(&self.body).map_err(|e| (String::new(), e.to_string()))?;
        let map = value.as_object_mut().ok_or_else(|| (String::new(), "this is no object".to_owned()))?;
        for (name, bodies) in [("messages", &self.own), ("other_messages", &self.other)] {
            if bodies.is_empty() && name == "other_messages" {
                continue;
            }
            let list = bodies.iter().enumerate().map(|(at, body)| {
                serde_json::from_str(body).map_err(|e| (format!(".{name}[{at}]"), e.to_string()))
            });
            map.insert(name.to_owned(), Value::Array(list.collect::<Result<_, _>>()?));
        }
        Ok(value)
    }
}
