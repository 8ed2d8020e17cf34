//! Searches sessions in the database.

use agent_core::SessionId;
use rusqlite::types::Value as Bound;
use rusqlite::{Transaction, params_from_iter};

use super::super::database::{CAN_BE_OPEN, Sealed, number, order_by, status_name};
use super::super::json::form2::search_line;
use super::super::query::{FoundSession, FoundSessions, HITS, SessionQuery, TextHit};
use super::super::write_lock;
use super::{Failure, SqliteStore, form1};
use crate::error::SessionError;
use crate::model::LoopStatus;
use crate::store::BlockingSessionStore as _;
use crate::unfinished::UnfinishedSessions;

/// The condition after `WHERE`, and the values of its parameters.
struct Conditions {
    text: String,
    bound: Vec<Bound>,
}

impl Conditions {
    fn add(&mut self, condition: &str, value: impl Into<Bound>) {
        if !self.text.is_empty() {
            self.text.push_str(" AND ");
        }
        self.text.push_str(condition);
        self.bound.push(value.into());
    }
}

pub(super) fn find(store: &SqliteStore, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
    let asked = query.words()?;
    store.shared.read("searched", |t| {
        let mut found = FoundSessions::default();
        let conditions = conditions(store, t, query, &asked)?;
        let filter = if conditions.text.is_empty() { "1" } else { &conditions.text };
        let total: i64 = t
            .prepare_cached(&format!("SELECT count(*) FROM sessions AS s NOT INDEXED WHERE {filter}"))?
            .query_row(params_from_iter(&conditions.bound), |row| row.get(0))?;
        found.total = usize::try_from(total).unwrap_or_default();
        let (column, direction) = order_by(query);
        let sql = format!(
            "SELECT session, id, sealed FROM sessions AS s NOT INDEXED WHERE {filter} ORDER BY {column} {direction}, id ASC
             LIMIT ? OFFSET ?"
        );
        let mut bound = conditions.bound;
        bound.push(number(query.limit() as u64).into());
        bound.push(number(query.offset as u64).into());
        let mut statement = t.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(&bound))?;
        while let Some(row) = rows.next()? {
            let (row, id, sealed): (i64, String, Option<Vec<u8>>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            match look(store, t, (row, &id), sealed.as_deref(), &asked) {
                Ok(session) => found.sessions.push(session),
                Err(failure) if failure.is_damage() => {
                    found.unreadable.push((SessionId::from(id), failure.named(store.path(), "read")));
                }
                Err(failure) => return Err(failure),
            }
        }
        for id in lost_ids(t)? {
            let lost = Failure::damaged(&id, "its row", "the row is missing".to_owned());
            found.unreadable.push((SessionId::from(id), lost.named(store.path(), "read")));
        }
        Ok(found)
    })
}

/// Returns the ids of sessions whose rows are missing. The table is read as a whole, because a damaged index hides rows.
pub(super) fn lost_ids(t: &Transaction<'_>) -> Result<Vec<String>, Failure> {
    let mut statement = t.prepare_cached("SELECT id FROM ids EXCEPT SELECT id FROM sessions NOT INDEXED")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Returns a session of the result.
fn look(
    store: &SqliteStore,
    t: &Transaction<'_>,
    (row, id): (i64, &str),
    sealed: Option<&[u8]>,
    asked: &[String],
) -> Result<FoundSession, Failure> {
    let (mut summary, hits) = match sealed {
        Some(line) => {
            let sealed = Sealed::read(line, id).map_err(|e| Failure::damaged(id, "its summary", e))?;
            (sealed.summary, hits(t, (row, id), asked)?)
        }
        None => {
            let hits = if asked.is_empty() { Vec::new() } else { form1::hits(t, row, asked)? };
            (form1::summary(t, row)?, hits)
        }
    };
    if summary.status == Some(LoopStatus::Running) && !is_written(store, id) {
        summary.status = Some(LoopStatus::Interrupted);
    }
    Ok(FoundSession { summary, hits })
}

/// Returns the open runs. A session is loaded if its summary does not tell whether it has one.
pub(super) fn unfinished(store: &SqliteStore) -> Result<UnfinishedSessions, SessionError> {
    let mut found = UnfinishedSessions::default();
    for (id, sealed) in summaries(store, CAN_BE_OPEN)? {
        match sealed {
            Some(Sealed { summary, waits: Some(waits), .. }) => {
                let run = waits.unfinished(summary, || is_written(store, id.as_str()));
                found.runs.extend(run);
            }
            _ => found.add(id.clone(), store.load_session(id.as_str())),
        }
    }
    Ok(found)
}

/// Returns the sessions that can have a deferred call without a result, and those that cannot be read.
pub(super) fn deferring_ids(store: &SqliteStore) -> Result<Vec<SessionId>, SessionError> {
    let all = summaries(store, "1")?.into_iter();
    let can_wait = |sealed: &Option<Sealed>| {
        sealed.as_ref().and_then(|sealed| sealed.waits.as_ref()).is_none_or(|waits| waits.has_deferred)
    };
    Ok(all.filter(|(_, sealed)| can_wait(sealed)).map(|(id, _)| id).collect())
}

/// Returns the summaries of sessions, newest first; `None` for one that is damaged or that version 1 stored.
fn summaries(store: &SqliteStore, filter: &str) -> Result<Vec<(SessionId, Option<Sealed>)>, SessionError> {
    store.shared.read("read", |t| {
        let sql = format!("SELECT id, sealed FROM sessions NOT INDEXED WHERE {filter} ORDER BY changed DESC");
        let mut statement = t.prepare_cached(&sql)?;
        let rows = statement.query_map([], |row| {
            let (id, sealed): (String, Option<Vec<u8>>) = (row.get(0)?, row.get(1)?);
            let sealed = sealed.and_then(|line| Sealed::read(&line, &id).ok());
            Ok((SessionId::from(id), sealed))
        })?;
        let mut found: Vec<_> = rows.collect::<Result<_, _>>()?;
        found.extend(lost_ids(t)?.into_iter().map(|id| (SessionId::from(id), None)));
        Ok(found)
    })
}

fn is_written(store: &SqliteStore, id: &str) -> bool {
    store.lock_of(id).is_ok_and(|path| write_lock::is_held(&path))
}

fn conditions(
    store: &SqliteStore,
    t: &Transaction<'_>,
    query: &SessionQuery,
    asked: &[String],
) -> Result<Conditions, Failure> {
    let mut c = Conditions { text: String::new(), bound: Vec::new() };
    if let Some(agent) = &query.agent {
        c.add("s.agent = ?", agent.as_str().to_owned());
    }
    if let Some(model) = &query.model {
        c.add("s.session IN (SELECT session FROM models WHERE model = ?)", model.clone());
    }
    if let Some(time) = query.active_since {
        c.add("s.last_active_at >= ?", number(time.0));
    }
    if let Some(time) = query.begun_before {
        c.add("s.created_at < ?", number(time.0));
    }
    if let Some(cost) = query.min_cost {
        c.add("s.cost >= ?", number(cost));
    }
    if let Some(cost) = query.max_cost {
        c.add("s.cost <= ?", number(cost));
    }
    if let Some(parent) = &query.parent {
        c.add("s.parent = ?", parent.as_str().to_owned());
    }
    if let Some(status) = query.status {
        match status {
            LoopStatus::Running | LoopStatus::Interrupted => {
                // Loops without a writer were cut off; the database does not record that.
                let (running, cut): (Vec<String>, Vec<String>) =
                    open_sessions(t)?.into_iter().partition(|id| is_written(store, id));
                let wanted = if status == LoopStatus::Running { running } else { cut };
                let list = serde_json::to_string(&wanted).map_err(Failure::encode)?;
                let named = "s.id IN (SELECT value FROM json_each(?))";
                match status {
                    LoopStatus::Running => c.add(named, list),
                    _ => c.add(&format!("(s.status = 'Interrupted' OR {named})"), list),
                }
            }
            other => c.add("s.status = ?", status_name(other)),
        }
    }
    if !asked.is_empty() {
        // Searched once, for both the count and the page.
        let mut statement = t.prepare_cached(
            "SELECT p.session FROM texts JOIN places p ON p.message = texts.rowid WHERE texts MATCH ?1
             UNION SELECT s.session FROM said_words JOIN said s ON s.message = said_words.rowid WHERE said_words MATCH ?1",
        )?;
        let found = statement.query_map([expression(asked)], |row| row.get(0))?;
        let found: Vec<i64> = found.collect::<Result<_, _>>()?;
        let list = serde_json::to_string(&found).map_err(Failure::encode)?;
        c.add("s.session IN (SELECT value FROM json_each(?))", list);
    }
    Ok(c)
}

fn open_sessions(t: &Transaction<'_>) -> Result<Vec<String>, Failure> {
    let mut statement = t.prepare_cached("SELECT id FROM sessions NOT INDEXED WHERE status = 'Running'")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Returns the full-text query for words as prefixes. Words contain letters and digits only.
fn expression(asked: &[String]) -> String {
    let mut text = String::new();
    for word in asked {
        text.push_str(&format!("\"{word}\"* "));
    }
    text
}

/// Returns the first places of the words in the lines and records of a session.
fn hits(t: &Transaction<'_>, (row, id): (i64, &str), asked: &[String]) -> Result<Vec<TextHit>, Failure> {
    let mut hits = Vec::new();
    if asked.is_empty() {
        return Ok(hits);
    }
    for (name, sql) in [
        ("line", "SELECT n, line FROM lines WHERE session = ?1 ORDER BY n"),
        ("record", "SELECT number, line FROM records WHERE session = ?1 ORDER BY number"),
    ] {
        // Reading the lines of one session in order is cheaper than querying the index for each session.
        let mut statement = t.prepare_cached(sql)?;
        let mut rows = statement.query([row])?;
        while hits.len() < HITS
            && let Some(row) = rows.next()?
        {
            let n: i64 = row.get(0)?;
            let line = row.get_ref(1)?.as_bytes().map_err(|e| e.to_string());
            let found = line.and_then(|line| search_line(line, asked));
            hits.extend(found.map_err(|e| Failure::damaged(id, &format!("{name} {n}"), e))?);
        }
    }
    hits.truncate(HITS);
    Ok(hits)
}
