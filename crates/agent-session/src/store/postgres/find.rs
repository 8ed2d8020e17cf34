//! Searches sessions in the database.

use std::sync::Arc;

use agent_core::SessionId;
use tokio_postgres::types::ToSql;

use super::Shared;
use super::connection::{Connection, Use};
use super::failure::{Failure, damaged};
use crate::error::SessionError;
use crate::model::LoopStatus;
use crate::store::database::{CAN_BE_OPEN, Damage, Sealed, number, order_by, status_name};
use crate::store::json::form2::search_line;
use crate::store::query::{FoundSession, FoundSessions, HITS, SessionQuery, TextHit};

/// Whether a writer has a session. The lease is compared with the server's clock.
const IS_WRITTEN: &str =
    "EXISTS (SELECT FROM leases l WHERE l.id = s.id AND l.expires_at > statement_timestamp())";

/// The lines and records of a session. `$2` are patterns of which each line of ASCII has all; the lower case of some other
/// characters is ASCII.
const LINES: &str = "
    SELECT x.name, x.n, x.line FROM sessions s JOIN (
        SELECT session, 'line' AS name, n, line FROM lines UNION ALL SELECT session, 'record', number, line FROM records
    ) AS x USING (session)
    WHERE s.id = $1
        AND (lower(encode(x.line, 'escape')) LIKE ALL ($2::text[]) OR encode(x.line, 'escape') ~ '\\\\[23][0-7][0-7]')
    ORDER BY x.name, x.n";

/// The size in bytes of the lines that are searched at once.
const SEARCHED: usize = 1 << 20;

/// A value of a condition.
enum Bound {
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Bound {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Number(number) => number,
            Self::Text(text) => text,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The conditions after `WHERE`, and the values of their parameters.
#[derive(Default)]
struct Conditions {
    parts: Vec<String>,
    bound: Vec<Bound>,
}

impl Conditions {
    /// Adds a parameter and returns its name.
    fn bind(&mut self, value: Bound) -> String {
        self.bound.push(value);
        format!("${}", self.bound.len())
    }

    fn number(&mut self, before: &str, value: u64) {
        let name = self.bind(Bound::Number(number(value)));
        self.parts.push(format!("{before} {name}"));
    }

    fn bytes(&mut self, before: &str, value: &str) {
        let name = self.bind(Bound::Bytes(value.as_bytes().to_vec()));
        self.parts.push(format!("{before} {name}"));
    }

    fn of(query: &SessionQuery, asked: &[String]) -> Self {
        let mut c = Self::default();
        if let Some(agent) = &query.agent {
            c.bytes("s.agent =", agent.as_str());
        }
        if let Some(model) = &query.model {
            let name = c.bind(Bound::Bytes(model.as_bytes().to_vec()));
            c.parts.push(format!("{name} = ANY (s.models)"));
        }
        if let Some(time) = query.active_since {
            c.number("s.last_active_at >=", time.0);
        }
        if let Some(time) = query.begun_before {
            c.number("s.created_at <", time.0);
        }
        if let Some(cost) = query.min_cost {
            c.number("s.cost >=", cost);
        }
        if let Some(cost) = query.max_cost {
            c.number("s.cost <=", cost);
        }
        if let Some(parent) = &query.parent {
            c.bytes("s.parent =", parent.as_str());
        }
        match query.status {
            None => {}
            // Loops without a writer were cut off; the row of the session does not have that.
            Some(LoopStatus::Running) => c.parts.push(format!("s.status = 'Running' AND {IS_WRITTEN}")),
            Some(LoopStatus::Interrupted) => {
                c.parts
                    .push(format!("(s.status = 'Interrupted' OR s.status = 'Running' AND NOT {IS_WRITTEN})"));
            }
            Some(other) => {
                let name = c.bind(Bound::Text(status_name(other)));
                c.parts.push(format!("s.status = {name}"));
            }
        }
        if !asked.is_empty() {
            c.text(asked);
        }
        c
    }

    /// Adds the condition that a message has all words. The parts of a message with very many words are searched together.
    fn text(&mut self, asked: &[String]) {
        let words: Vec<String> = asked.iter().map(|word| format!("'{word}':*")).collect();
        let all = self.bind(Bound::Text(words.join(" & ")));
        let split = words.into_iter().map(|word| {
            let name = self.bind(Bound::Text(word));
            format!("SELECT session, message FROM said WHERE is_split AND words @@ {name}::text::tsquery")
        });
        let split = split.collect::<Vec<_>>().join(" INTERSECT ");
        self.parts.push(format!(
            "s.session IN (SELECT session FROM said WHERE words @@ {all}::text::tsquery
             UNION SELECT session FROM ({split}) AS t)"
        ));
    }

    fn filter(&self) -> String {
        if self.parts.is_empty() { "true".to_owned() } else { self.parts.join(" AND ") }
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.bound.iter().map(Bound::as_sql).collect()
    }
}

pub(super) async fn find(shared: &Arc<Shared>, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
    let asked = query.words()?;
    let found = find_rows(shared, query, &asked).await;
    found.map_err(|failure| failure.named(&shared.place, "searched"))
}

async fn find_rows(
    shared: &Arc<Shared>,
    query: &SessionQuery,
    asked: &[String],
) -> Result<FoundSessions, Failure> {
    let mut used = shared.pool.get(Use::Other).await?;
    let connection = &mut used.connection;
    let mut conditions = Conditions::of(query, asked);
    let filter = conditions.filter();
    let sql = format!("SELECT count(*) FROM sessions s WHERE {filter}");
    let rows = connection.query_once(&sql, &conditions.params()).await?;
    let total: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    let mut found = FoundSessions { total: usize::try_from(total).unwrap_or_default(), ..Default::default() };
    let (column, direction) = order_by(query);
    let limit = conditions.bind(Bound::Number(number(query.limit() as u64)));
    let offset = conditions.bind(Bound::Number(number(query.offset as u64)));
    let sql = format!(
        "SELECT s.id, s.sealed, {IS_WRITTEN} FROM sessions s WHERE {filter} ORDER BY s.{column} {direction}, s.id ASC
         LIMIT {limit} OFFSET {offset}"
    );
    for row in connection.query_once(&sql, &conditions.params()).await? {
        let (id, sealed, is_written): (String, &[u8], bool) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        match look(connection, &id, sealed, is_written, asked).await? {
            Ok(session) => found.sessions.push(session),
            Err(damage) => {
                let error = damaged(&shared.place, &id, damage);
                found.unreadable.push((SessionId::from(id), error));
            }
        }
    }
    used.back();
    Ok(found)
}

/// Returns a session of the result, or its damage.
async fn look(
    connection: &mut Connection,
    id: &str,
    sealed: &[u8],
    is_written: bool,
    asked: &[String],
) -> Result<Result<FoundSession, Damage>, Failure> {
    let mut summary = match Sealed::read(sealed, id) {
        Ok(sealed) => sealed.summary,
        Err(reason) => return Ok(Err(Damage { place: "its summary".to_owned(), reason })),
    };
    if summary.status == Some(LoopStatus::Running) && !is_written {
        summary.status = Some(LoopStatus::Interrupted);
    }
    if asked.is_empty() {
        return Ok(Ok(FoundSession::new(summary, Vec::new())));
    }
    Ok(hits(connection, id, asked).await?.map(|hits| FoundSession::new(summary, hits)))
}

/// Returns the first places of the words in the lines and records of a session, or the damage of one.
async fn hits(
    connection: &mut Connection,
    id: &str,
    asked: &[String],
) -> Result<Result<Vec<TextHit>, Damage>, Failure> {
    let ascii = asked.iter().filter(|word| word.is_ascii());
    let patterns: Vec<String> = ascii.map(|word| format!("%{word}%")).collect();
    let mut stream = std::pin::pin!(connection.stream(LINES, &[&id, &patterns]).await?);
    let mut hits = Vec::new();
    loop {
        let (mut lines, mut bytes, mut is_last) = (Vec::new(), 0, false);
        while bytes < SEARCHED && !is_last {
            match connection.next(&mut stream).await? {
                None => is_last = true,
                Some(row) => {
                    let (name, n, line): (String, i64, Vec<u8>) =
                        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                    bytes += line.len();
                    lines.push((name, n, line));
                }
            }
        }
        let words = asked.to_vec();
        let found = tokio::task::spawn_blocking(move || search(&lines, &words)).await;
        match found.map_err(|error| SessionError::store("lines", "searched", error))? {
            Ok(found) => hits.extend(found),
            Err(damage) => return Ok(Err(damage)),
        }
        if is_last || hits.len() >= HITS {
            hits.truncate(HITS);
            return Ok(Ok(hits));
        }
    }
}

fn search(lines: &[(String, i64, Vec<u8>)], asked: &[String]) -> Result<Vec<TextHit>, Damage> {
    let mut hits = Vec::new();
    for (name, n, line) in lines {
        let found = search_line(line, asked);
        hits.extend(found.map_err(|reason| Damage { place: format!("{name} {n}"), reason })?);
        if hits.len() >= HITS {
            break;
        }
    }
    Ok(hits)
}

/// Which sessions are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listed {
    All,
    /// Those that can have an open run.
    Open,
    /// Those that can have a deferred call without a result.
    Deferring,
}

impl Listed {
    fn filter(self) -> &'static str {
        match self {
            Self::All => "true",
            Self::Open => CAN_BE_OPEN,
            Self::Deferring => "deferred IS NOT FALSE",
        }
    }
}

/// Returns the ids of sessions, the last written one first.
pub(super) async fn ids(shared: &Shared, listed: Listed) -> Result<Vec<SessionId>, SessionError> {
    let list = async {
        let mut used = shared.pool.get(Use::Other).await?;
        let sql = format!("SELECT id FROM sessions WHERE {} ORDER BY changed DESC", listed.filter());
        let rows = used.connection.query_once(&sql, &[]).await?;
        used.back();
        rows.iter()
            .map(|row| Ok(SessionId::from(row.try_get::<_, String>(0)?)))
            .collect::<Result<_, Failure>>()
    };
    list.await.map_err(|failure| failure.named(&shared.place, "read"))
}

/// The summary of a session that can have an open run; `None` if it is damaged. It tells whether a writer has the session, too.
pub(super) type OpenSession = (SessionId, Option<Sealed>, bool);

/// Returns the sessions that can have an open run, the last written one first.
pub(super) async fn open(shared: &Shared) -> Result<Vec<OpenSession>, SessionError> {
    let list = async {
        let mut used = shared.pool.get(Use::Other).await?;
        let sql = format!(
            "SELECT s.id, s.sealed, {IS_WRITTEN} FROM sessions s WHERE {CAN_BE_OPEN} ORDER BY s.changed DESC"
        );
        let rows = used.connection.query_once(&sql, &[]).await?;
        used.back();
        let read = rows.iter().map(|row| {
            let (id, sealed): (String, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            let sealed = Sealed::read(sealed, &id).ok();
            Ok((SessionId::from(id), sealed, row.try_get(2)?))
        });
        read.collect::<Result<_, Failure>>()
    };
    list.await.map_err(|failure| failure.named(&shared.place, "read"))
}
