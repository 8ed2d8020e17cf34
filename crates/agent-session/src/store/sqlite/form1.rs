//! Reads sessions that version 1 stored: a row for each loop and each message, without checksums.

use std::collections::BTreeSet;
use std::path::Path;

use agent_core::{AgentMessage, LoopId, SessionId, Timestamp};
use rusqlite::{Row, Transaction, params};
use serde_json::Value;

use super::super::journal::{Lines, form_of};
use super::super::query::{HITS, TextHit};
use super::super::salvage::{self, Loss, Salvaged};
use super::super::summary::SessionSummary;
use super::super::version::check_version;
use super::super::words;
use super::Failure;
use crate::error::SessionError;
use crate::model::recording::Recording;
use crate::model::texts::{NoReferences, unpack};
use crate::model::{SESSION_VERSION, Session};

/// The size of the rows of a session.
pub(super) const SIZE: &str =
    "SELECT (SELECT coalesce(sum(octet_length(body)), 0) FROM loops WHERE session = ?1)
     + (SELECT coalesce(sum(octet_length(body)), 0) FROM messages WHERE session = ?1)
     + (SELECT coalesce(sum(octet_length(line)), 0) FROM records WHERE session = ?1)";

/// The rows of a session.
pub(super) struct Rows {
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

impl Rows {
    pub(super) fn read(t: &Transaction<'_>, session: i64) -> Result<Self, Failure> {
        let head = t
            .prepare_cached("SELECT head FROM sessions WHERE session = ?1")?
            .query_row([session], |row| row.get(0))?;
        let records = t
            .prepare_cached("SELECT number, line FROM records WHERE session = ?1 ORDER BY number")?
            .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        Ok(Self { head, loops: loops(t, session)?, records })
    }

    /// Builds the session.
    ///
    /// # Errors
    /// When a row is damaged.
    pub(super) fn session(&self, path: &Path, id: &str) -> Result<Session, SessionError> {
        let corrupt = |place: String, reason: String| {
            SessionError::corrupt(path, format!("session {id}, {place}"), reason)
        };
        let mut value = self.head(path, id)?;
        let mut loops = Vec::with_capacity(self.loops.len());
        for (at, row) in self.loops.iter().enumerate() {
            let record =
                row.value().map_err(|(place, reason)| corrupt(format!("loops[{at}]{place}"), reason))?;
            if record.get("loop_id").and_then(Value::as_str) != Some(&row.id) {
                let reason = format!("its row is that of {:?}", row.id);
                return Err(corrupt(format!("loops[{at}].loop_id"), reason));
            }
            loops.push(record);
        }
        if let Some(map) = value.as_object_mut() {
            map.insert("loops".to_owned(), Value::Array(loops));
        }
        let session = Session::from_value(value).map_err(|e| corrupt(e.place, e.reason))?;
        let mut lines = self.lines(session);
        for (number, line) in &self.records {
            lines.take(line.as_bytes()).map_err(|reason| corrupt(format!("record {number}"), reason))?;
        }
        Ok(lines.finish().session)
    }

    /// Returns what can be read of the session.
    ///
    /// # Errors
    /// When the session's own row is damaged.
    pub(super) fn salvage(&self, path: &Path, id: &str) -> Result<Salvaged, SessionError> {
        let mut losses = Vec::new();
        let place = |place: String| format!("{}: session {id}, {place}", path.display());
        let head = self.head(path, id)?;
        let mut session = Session::from_value(head)
            .map_err(|e| SessionError::corrupt(path, format!("session {id}, {}", e.place), e.reason))?;
        for (at, row) in self.loops.iter().enumerate() {
            let read = row.value().map_err(|(place, reason)| format!("{place}: {reason}"));
            match read.and_then(salvage::read_loop) {
                Ok((record, lost)) => {
                    losses.extend(lost.map(|reason| Loss::new(place(format!("loops[{at}]")), reason)));
                    session.loops.push(record);
                }
                Err(reason) => losses.push(Loss::new(place(format!("loops[{at}]")), reason)),
            }
        }
        let mut lines = self.lines(session);
        for (number, line) in &self.records {
            if let Err(reason) = lines.take(line.as_bytes()) {
                losses.push(Loss::new(place(format!("record {number} and those after it")), reason));
                break;
            }
        }
        Ok(Salvaged { session: salvage::closed(lines.finish().session), losses })
    }

    fn lines(&self, session: Session) -> Lines {
        let bytes = self.records.iter().map(|(_, line)| line.len()).sum();
        let form = form_of(self.records.first().map(|(_, line)| line.as_bytes()));
        Lines::new(Recording::new(session), form, bytes)
    }

    fn head(&self, path: &Path, id: &str) -> Result<Value, SessionError> {
        let corrupt = |place: &str, reason: String| {
            SessionError::corrupt(path, format!("session {id}, {place}"), reason)
        };
        let value: Value = serde_json::from_str(&self.head).map_err(|e| corrupt("head", e.to_string()))?;
        let place = format!("session {id}, head.version");
        check_version(path, &place, value.get("version"), SESSION_VERSION)?;
        let named = value.get("session_id").and_then(Value::as_str).unwrap_or_default();
        if named != id {
            return Err(corrupt("head.session_id", format!("the row holds session {named:?}")));
        }
        Ok(value)
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

/// Returns the summary of a session from its columns.
pub(super) fn summary(t: &Transaction<'_>, session: i64) -> Result<SessionSummary, Failure> {
    let mut models = t.prepare_cached("SELECT model FROM models WHERE session = ?1")?;
    let models = models.query_map([session], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut statement = t.prepare_cached(
        "SELECT id, agent, created_at, last_active_at, parent, title, status, loops, messages, input, output, reasoning,
             cache_read, cache_write, tokens, cost
         FROM sessions WHERE session = ?1",
    )?;
    Ok(statement.query_row([session], |row| summary_of(row, models))?)
}

fn summary_of(row: &Row<'_>, models: BTreeSet<String>) -> Result<SessionSummary, rusqlite::Error> {
    let natural = |at: usize| -> Result<u64, rusqlite::Error> {
        Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or_default())
    };
    let mut usage = agent_core::Usage::new(natural(9)?, natural(10)?, natural(12)?, natural(13)?);
    usage.reasoning = natural(11)?;
    usage.total_tokens = natural(14)?;
    let status: Option<String> = row.get(6)?;
    Ok(SessionSummary {
        session_id: SessionId::from(row.get::<_, String>(0)?),
        agent_id: row.get::<_, String>(1)?.into(),
        created_at: Timestamp(natural(2)?),
        last_active_at: Timestamp(natural(3)?),
        parent_session_id: row.get::<_, Option<String>>(4)?.map(SessionId::from),
        title: row.get(5)?,
        status: status.and_then(|s| serde_json::from_value(Value::String(s)).ok()),
        loops: natural(7)?,
        messages: natural(8)?,
        models,
        usage,
        cost_micros: natural(15)?,
    })
}

/// Returns the first places of the words in a session.
pub(super) fn hits(t: &Transaction<'_>, session: i64, asked: &[String]) -> Result<Vec<TextHit>, Failure> {
    // Reading the messages of one session in order is cheaper than querying the index for each session.
    let mut statement = t.prepare_cached(
        "SELECT l.id, m.place, m.body FROM messages m JOIN loops l ON l.loop = m.loop
         WHERE m.session = ?1 AND m.list = 0 ORDER BY l.position, m.place",
    )?;
    let mut rows = statement.query([session])?;
    let mut hits = Vec::new();
    while hits.len() < HITS
        && let Some(row) = rows.next()?
    {
        let text = text_of(&row.get::<_, String>(2)?);
        let Some(at) = words::find(&text, asked) else { continue };
        let place: i64 = row.get(1)?;
        let loop_id = LoopId::from(row.get::<_, String>(0)?);
        hits.push(TextHit::new(
            loop_id,
            usize::try_from(place).unwrap_or_default(),
            words::snippet(&text, at),
        ));
    }
    Ok(hits)
}

/// Returns the text of a message; empty if its row cannot be read, which is an error when the session is loaded.
fn text_of(body: &str) -> String {
    let value = serde_json::from_str(body).ok().and_then(|v| unpack(v, &mut NoReferences).ok());
    let message = value.and_then(|v| serde_json::from_value::<AgentMessage>(v).ok());
    message.map(|m| m.text()).unwrap_or_default()
}
