//! Writes sessions to rows.

use agent_core::MessageRef;
use rusqlite::{OptionalExtension, Transaction, params};
use serde_json::Value;

use super::super::summary::SessionSummary;
use super::super::words;
use super::Failure;
use crate::model::texts::pack;
use crate::model::{LoopRecord, LoopStatus, Session};

/// The treatment of stored messages of a loop that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Messages {
    /// The stored messages are unchanged, and only new ones are written.
    Kept,
    /// The stored messages can differ. They are compared, and written again from the first difference.
    Replaced,
}

/// The list that a message is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Own = 0,
    Other = 1,
}

/// Writes a whole session and deletes its records.
pub(super) fn put_session(t: &Transaction<'_>, session: &Session, messages: Messages) -> Result<(), Failure> {
    let head = session.head_value().map_err(Failure::encode)?.to_string();
    let row = put_row(t, &SessionSummary::of(session), Some(&head))?;
    for (at, record) in session.loops.iter().enumerate() {
        put_loop(t, row, at, record, messages)?;
    }
    t.prepare_cached("DELETE FROM records WHERE session = ?1")?.execute([row])?;
    Ok(())
}

/// Writes the row of a session and returns its number. Without a head, the row keeps the one that it has.
pub(super) fn put_row(t: &Transaction<'_>, s: &SessionSummary, head: Option<&str>) -> Result<i64, Failure> {
    let row: i64 = t
        .prepare_cached(
            "INSERT INTO sessions (id, agent, created_at, last_active_at, parent, title, status, loops, messages, input,
                 output, reasoning, cache_read, cache_write, tokens, cost, head, changed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, coalesce(?17, ''),
                 (SELECT coalesce(max(changed), 0) + 1 FROM sessions))
             ON CONFLICT (id) DO UPDATE SET agent = ?2, created_at = ?3, last_active_at = ?4, parent = ?5, title = ?6,
                 status = ?7, loops = ?8, messages = ?9, input = ?10, output = ?11, reasoning = ?12, cache_read = ?13,
                 cache_write = ?14, tokens = ?15, cost = ?16, head = coalesce(?17, head), changed = excluded.changed
             RETURNING session",
        )?
        .query_row(
            params![
                s.session_id.as_str(),
                s.agent_id.as_str(),
                number(s.created_at.0),
                number(s.last_active_at.0),
                s.parent_session_id.as_ref().map(agent_core::SessionId::as_str),
                s.title,
                s.status.map(status_name),
                number(s.loops),
                number(s.messages),
                number(s.usage.input),
                number(s.usage.output),
                number(s.usage.reasoning),
                number(s.usage.cache_read),
                number(s.usage.cache_write),
                number(s.usage.total_tokens),
                number(s.cost_micros),
                head,
            ],
            |row| row.get(0),
        )?;
    let mut statement = t.prepare_cached("INSERT OR IGNORE INTO models (session, model) VALUES (?1, ?2)")?;
    for model in &s.models {
        statement.execute(params![row, model])?;
    }
    Ok(row)
}

/// Returns the row of a loop, which is inserted if it does not exist.
pub(super) fn loop_row(t: &Transaction<'_>, session: i64, position: usize, id: &str) -> Result<i64, Failure> {
    let found = t
        .prepare_cached("SELECT loop FROM loops WHERE session = ?1 AND id = ?2")?
        .query_row(params![session, id], |row| row.get(0))
        .optional()?;
    if let Some(row) = found {
        return Ok(row);
    }
    t.prepare_cached("INSERT INTO loops (session, position, id, own, other) VALUES (?1, ?2, ?3, 0, 0)")?
        .execute(params![session, number(position as u64), id])?;
    Ok(t.last_insert_rowid())
}

fn put_loop(
    t: &Transaction<'_>,
    session: i64,
    position: usize,
    record: &LoopRecord,
    messages: Messages,
) -> Result<(), Failure> {
    let row = loop_row(t, session, position, record.loop_id.as_str())?;
    let mut value = record.to_value().map_err(Failure::encode)?;
    let mut take = |key: &str| match value.as_object_mut().and_then(|m| m.shift_remove(key)) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let (own, other) = (take("messages"), take("other_messages"));
    let body = value.to_string();
    t.prepare_cached(
        "UPDATE loops SET position = ?2, own = ?3, other = ?4, body = ?5
         WHERE loop = ?1 AND (position, own, other, body) IS NOT (?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        row,
        number(position as u64),
        number(own.len() as u64),
        number(other.len() as u64),
        body
    ])?;
    for (list, values, texts) in
        [(List::Own, &own, &record.messages), (List::Other, &other, &record.other_messages)]
    {
        let bodies: Vec<String> = values.iter().map(Value::to_string).collect();
        let known = match messages {
            Messages::Kept => count(t, row, list)?,
            Messages::Replaced => keep_same(t, row, list, &bodies)?,
        };
        for (place, (body, message)) in bodies.iter().zip(texts).enumerate().skip(known) {
            put_message(t, (session, row), list, place, body, &words_of(message))?;
        }
    }
    Ok(())
}

/// Returns the number of stored messages of a list.
fn count(t: &Transaction<'_>, row: i64, list: List) -> Result<usize, Failure> {
    let count: i64 = t
        .prepare_cached("SELECT count(*) FROM messages WHERE loop = ?1 AND list = ?2")?
        .query_row(params![row, list as i64], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

/// Retains the messages up to the first different one, drops the rest, and returns the number of retained messages.
fn keep_same(t: &Transaction<'_>, row: i64, list: List, bodies: &[String]) -> Result<usize, Failure> {
    let mut statement =
        t.prepare_cached("SELECT body FROM messages WHERE loop = ?1 AND list = ?2 ORDER BY place")?;
    let mut stored = statement.query(params![row, list as i64])?;
    let mut same = 0;
    while let Some(stored) = stored.next()? {
        if bodies.get(same).map(String::as_str) != Some(stored.get_ref(0)?.as_str().unwrap_or_default()) {
            break;
        }
        same += 1;
    }
    drop(stored);
    t.prepare_cached("DELETE FROM messages WHERE loop = ?1 AND list = ?2 AND place >= ?3")?
        .execute(params![row, list as i64, number(same as u64)])?;
    Ok(same)
}

/// Returns the words of a message for the full-text index.
pub(super) fn words_of(message: &MessageRef) -> String {
    let mut line = String::new();
    for (_, word) in words::words(&message.text()) {
        line.push_str(&word);
        line.push(' ');
    }
    line
}

/// Returns the JSON of a message in the same form as in a loop.
pub(super) fn body_of(message: &MessageRef) -> Result<String, Failure> {
    let value = serde_json::to_value(message).map_err(Failure::encode)?;
    Ok(pack(value, &mut |_| None).to_string())
}

pub(super) fn put_message(
    t: &Transaction<'_>,
    (session, row): (i64, i64),
    list: List,
    place: usize,
    body: &str,
    words: &str,
) -> Result<(), Failure> {
    let new = t
        .prepare_cached(
            "INSERT INTO messages (loop, session, list, place, body) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![row, session, list as i64, number(place as u64), body])?;
    if new > 0 && list == List::Own {
        let message = t.last_insert_rowid();
        t.prepare_cached("INSERT INTO places (message, session) VALUES (?1, ?2)")?
            .execute(params![message, session])?;
        t.prepare_cached("INSERT INTO texts (rowid, words) VALUES (?1, ?2)")?
            .execute(params![message, words])?;
    }
    Ok(())
}

/// Converts a number to SQLite's signed type. A larger number becomes the maximum.
pub(super) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Returns the name of a status, in the same form as in JSON.
pub(super) fn status_name(status: LoopStatus) -> String {
    match serde_json::to_value(status) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
