//! Searches sessions in the database.

use std::collections::BTreeSet;

use agent_core::{AgentMessage, LoopId, SessionId, Timestamp};
use rusqlite::types::Value as Bound;
use rusqlite::{Row, Transaction, params_from_iter};
use serde_json::Value;

use super::super::query::{FoundSession, FoundSessions, HITS, Order, SessionQuery, SortBy, TextHit};
use super::super::summary::SessionSummary;
use super::super::{words, write_lock};
use super::rows::{number, status_name};
use super::{Failure, SqliteStore};
use crate::error::SessionError;
use crate::model::LoopStatus;
use crate::model::texts::{NoReferences, unpack};

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
            .prepare_cached(&format!("SELECT count(*) FROM sessions s WHERE {filter}"))?
            .query_row(params_from_iter(&conditions.bound), |row| row.get(0))?;
        found.total = usize::try_from(total).unwrap_or_default();
        let column = match query.sort {
            SortBy::LastActive => "last_active_at",
            SortBy::Created => "created_at",
            SortBy::Cost => "cost",
            SortBy::Tokens => "tokens",
            SortBy::Id => "id",
        };
        let direction = match query.order {
            Order::Ascending => "ASC",
            Order::Descending => "DESC",
        };
        let sql = format!(
            "SELECT session, id, agent, created_at, last_active_at, parent, title, status, loops, messages, input, output,
                 reasoning, cache_read, cache_write, tokens, cost
             FROM sessions s WHERE {filter} ORDER BY {column} {direction}, id ASC LIMIT ? OFFSET ?"
        );
        let mut bound = conditions.bound;
        bound.push(number(query.limit() as u64).into());
        bound.push(number(query.offset as u64).into());
        let mut statement = t.prepare_cached(&sql)?;
        let mut rows = statement.query(params_from_iter(&bound))?;
        while let Some(row) = rows.next()? {
            let key: i64 = row.get(0)?;
            let mut summary = summary(t, row)?;
            if summary.status == Some(LoopStatus::Running) && !is_written(store, summary.session_id.as_str()) {
                summary.status = Some(LoopStatus::Interrupted);
            }
            let hits = if asked.is_empty() { Vec::new() } else { hits(t, key, &asked)? };
            found.sessions.push(FoundSession { summary, hits });
        }
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
            "SELECT DISTINCT p.session FROM texts JOIN places p ON p.message = texts.rowid WHERE texts MATCH ?",
        )?;
        let found = statement.query_map([expression(asked)], |row| row.get(0))?;
        let found: Vec<i64> = found.collect::<Result<_, _>>()?;
        let list = serde_json::to_string(&found).map_err(Failure::encode)?;
        c.add("s.session IN (SELECT value FROM json_each(?))", list);
    }
    Ok(c)
}

fn open_sessions(t: &Transaction<'_>) -> Result<Vec<String>, Failure> {
    let mut statement = t.prepare_cached("SELECT id FROM sessions WHERE status = 'Running'")?;
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

fn summary(t: &Transaction<'_>, row: &Row<'_>) -> Result<SessionSummary, Failure> {
    let natural = |at: usize| -> Result<u64, rusqlite::Error> {
        Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or_default())
    };
    let mut usage = agent_core::Usage::new(natural(10)?, natural(11)?, natural(13)?, natural(14)?);
    usage.reasoning = natural(12)?;
    usage.total_tokens = natural(15)?;
    let status: Option<String> = row.get(7)?;
    let mut models = t.prepare_cached("SELECT model FROM models WHERE session = ?1")?;
    let models = models.query_map([row.get::<_, i64>(0)?], |row| row.get(0))?;
    Ok(SessionSummary {
        session_id: SessionId::from(row.get::<_, String>(1)?),
        agent_id: row.get::<_, String>(2)?.into(),
        created_at: Timestamp(natural(3)?),
        last_active_at: Timestamp(natural(4)?),
        parent_session_id: row.get::<_, Option<String>>(5)?.map(SessionId::from),
        title: row.get(6)?,
        status: status.and_then(|s| serde_json::from_value(Value::String(s)).ok()),
        loops: natural(8)?,
        messages: natural(9)?,
        models: models.collect::<Result<BTreeSet<String>, _>>()?,
        usage,
        cost_micros: natural(16)?,
    })
}

/// Returns the first places of the words in a session.
fn hits(t: &Transaction<'_>, session: i64, asked: &[String]) -> Result<Vec<TextHit>, Failure> {
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
        hits.push(TextHit {
            loop_id: LoopId::from(row.get::<_, String>(0)?),
            message: usize::try_from(place).unwrap_or_default(),
            snippet: words::snippet(&text, at),
        });
    }
    Ok(hits)
}

/// Returns the text of a message; empty if its row cannot be read, which is an error when the session is loaded.
fn text_of(body: &str) -> String {
    let value = serde_json::from_str(body).ok().and_then(|v| unpack(v, &mut NoReferences).ok());
    let message = value.and_then(|v| serde_json::from_value::<AgentMessage>(v).ok());
    message.map(|m| m.text()).unwrap_or_default()
}
