//! Writes sessions to rows.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::{MessageRef, SessionId};
use sha2::{Digest as _, Sha256};

use super::connection::Connection;
use super::failure::Failure;
use super::{PostgresConfig, lease};
use crate::error::SessionError;
use crate::model::Session;
use crate::store::database::{Encoded, SealedLine, Words, messages, number, status_name, words_of};
use crate::store::lines::Crc;
use crate::store::summary::{SessionSummary, Waits};

/// The size in bytes of the words of one row. The server takes less than 1 MiB.
const PART: usize = 256 << 10;

/// The size in bytes from which on rows are sent in another statement.
const CHUNK: usize = 4 << 20;

const PUT_SESSION: &str = "
    INSERT INTO sessions (id, agent, parent, models, created_at, last_active_at, status, tokens, cost, deferred, records,
        sealed, changed)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, nextval('changes'))
    ON CONFLICT (id) DO UPDATE SET (agent, parent, models, created_at, last_active_at, status, tokens, cost, deferred,
        records, sealed, changed) = (excluded.agent, excluded.parent, excluded.models, excluded.created_at,
        excluded.last_active_at, excluded.status, excluded.tokens, excluded.cost, excluded.deferred, excluded.records,
        excluded.sealed, excluded.changed)
    RETURNING session, xmax = 0";

const PUT_LINES: &str = "
    INSERT INTO lines (session, n, line) SELECT $1, x.n, x.line FROM unnest($2::int8[], $3::bytea[]) AS x (n, line)
    ON CONFLICT (session, n) DO UPDATE SET line = excluded.line";

const PUT_WORDS: &str = "
    INSERT INTO said (session, message, part, is_split, words)
    SELECT $1, x.message, x.part, x.is_split, array_to_tsvector(string_to_array(x.words, ' '))
    FROM unnest($2::int8[], $3::int4[], $4::bool[], $5::text[]) AS x (message, part, is_split, words)";

/// The columns of a session.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) agent: Vec<u8>,
    pub(super) parent: Option<Vec<u8>>,
    pub(super) models: Vec<Vec<u8>>,
    pub(super) created_at: i64,
    pub(super) last_active_at: i64,
    pub(super) status: Option<String>,
    pub(super) tokens: i64,
    pub(super) cost: i64,
    pub(super) deferred: Option<bool>,
    pub(super) records: i64,
    pub(super) sealed: Vec<u8>,
}

impl Columns {
    /// Creates the columns of a session with these lines. `last` is its last row, and `records` the number of its last record.
    pub(super) fn of(
        s: &SessionSummary,
        waits: Option<&Waits>,
        lines: u64,
        (records, last): (u64, &[u8]),
    ) -> Result<Self, SessionError> {
        Ok(Self {
            agent: s.agent_id.as_str().as_bytes().to_vec(),
            parent: s.parent_session_id.as_ref().map(|id| id.as_str().as_bytes().to_vec()),
            models: s.models.iter().map(|model| model.as_bytes().to_vec()).collect(),
            created_at: number(s.created_at.0),
            last_active_at: number(s.last_active_at.0),
            status: s.status.map(status_name),
            tokens: number(s.usage.total_tokens),
            cost: number(s.cost_micros),
            deferred: waits.map(|waits| waits.has_deferred),
            records: number(records),
            sealed: SealedLine { lines, records, tail: Crc::of(last), summary: s, waits }.line()?,
        })
    }
}

/// The words of messages, as the columns of rows.
#[derive(Debug, Default)]
pub(super) struct SaidRows {
    pub(super) messages: Vec<i64>,
    pub(super) parts: Vec<i32>,
    pub(super) is_split: Vec<bool>,
    pub(super) words: Vec<String>,
}

impl SaidRows {
    /// Adds a message, as number `message` of its session.
    pub(super) fn add(&mut self, message: u64, text: &MessageRef) {
        let all = words_of(text);
        let distinct: BTreeSet<&str> = all.split(' ').filter(|word| !word.is_empty()).collect();
        let mut parts = vec![String::new()];
        for word in distinct {
            if parts.last().is_some_and(|part| part.len() + word.len() > PART) {
                parts.push(String::new());
            }
            if let Some(part) = parts.last_mut() {
                if !part.is_empty() {
                    part.push(' ');
                }
                part.push_str(word);
            }
        }
        let is_split = parts.len() > 1;
        for (part, words) in (0..).zip(parts) {
            self.messages.push(number(message));
            self.parts.push(part);
            self.is_split.push(is_split);
            self.words.push(words);
        }
    }
}

/// A whole session, in the form in which it is written.
#[derive(Debug)]
pub(super) struct Whole {
    id: SessionId,
    lines: Vec<Vec<u8>>,
    hashes: Vec<[u8; 32]>,
    /// The size of the lines.
    pub(super) bytes: u64,
    columns: Columns,
    /// The words of all messages, if they replace those that were indexed.
    said: Option<SaidRows>,
    /// The number of its messages.
    pub(super) messages: u64,
}

impl Whole {
    /// Encodes a session, of which the words of `known` messages are indexed. `words` tells whether they can be others.
    pub(super) fn new(session: &Session, words: Words, known: u64) -> Result<Self, SessionError> {
        let encoded = Encoded::new(session)?;
        let count = messages(session).count() as u64;
        let said = (words == Words::Replaced || count != known).then(|| {
            let mut said = SaidRows::default();
            (0..).zip(messages(session)).for_each(|(n, message)| said.add(n, message));
            said
        });
        let lines = encoded.lines.len() as u64;
        let last = (session.journal_records, encoded.lines.last().map(Vec::as_slice).unwrap_or_default());
        let columns = Columns::of(&encoded.summary, encoded.waits.as_ref(), lines, last)?;
        Ok(Self {
            id: session.session_id.clone(),
            hashes: encoded.lines.iter().map(|line| Sha256::digest(line).into()).collect(),
            lines: encoded.lines,
            bytes: encoded.bytes,
            columns,
            said,
            messages: count,
        })
    }

    /// The number of the session's lines.
    pub(super) fn line_count(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Writes the session and deletes its records, in a transaction of its own. Returns whether the lease is valid; otherwise
    /// nothing was written.
    pub(super) async fn put_alone(
        &self,
        connection: &mut Connection,
        fence: i64,
        config: &PostgresConfig,
    ) -> Result<bool, Failure> {
        connection.batch("BEGIN").await?;
        let is_held = self.put(connection, fence, config).await?;
        connection.batch(if is_held { "COMMIT" } else { "ROLLBACK" }).await?;
        Ok(is_held)
    }

    /// Writes the session and deletes its records, in an open transaction.
    pub(super) async fn put(
        &self,
        connection: &mut Connection,
        fence: i64,
        config: &PostgresConfig,
    ) -> Result<bool, Failure> {
        if !lease::hold(connection, &self.id, fence, config.lease).await? {
            return Ok(false);
        }
        let Columns { agent, parent, models, created_at, last_active_at, status, tokens, cost, .. } =
            &self.columns;
        let Columns { deferred, records, sealed, .. } = &self.columns;
        let rows = connection
            .query(
                PUT_SESSION,
                &[
                    &self.id.as_str(),
                    agent,
                    parent,
                    models,
                    created_at,
                    last_active_at,
                    status,
                    tokens,
                    cost,
                    deferred,
                    records,
                    sealed,
                ],
            )
            .await?;
        let Some(row) = rows.first() else { return Err(Failure::Unfit("it returned no row".to_owned())) };
        // A row that no transaction has updated was inserted, and has no others.
        let (row, is_new): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
        self.put_lines(connection, row, is_new).await?;
        if !is_new {
            connection.execute("DELETE FROM records WHERE session = $1", &[&row]).await?;
        }
        if let Some(said) = &self.said {
            if !is_new {
                connection.execute("DELETE FROM said WHERE session = $1", &[&row]).await?;
            }
            put_words(connection, row, said).await?;
        }
        // The transaction can have taken long.
        lease::extend(connection, &self.id, fence, config.lease).await?;
        Ok(true)
    }

    /// Writes the lines that differ from the stored ones.
    async fn put_lines(&self, connection: &mut Connection, row: i64, is_new: bool) -> Result<(), Failure> {
        let mut known: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
        if !is_new {
            let sql = "SELECT n, sha256(line) FROM lines WHERE session = $1";
            for line in &connection.query(sql, &[&row]).await? {
                known.insert(line.try_get(0)?, line.try_get(1)?);
            }
        }
        let all = (0..).zip(self.lines.iter().zip(&self.hashes));
        let changed = all.filter(|(n, (_, hash))| known.get(n).is_none_or(|known| *known != hash[..]));
        let (mut numbers, mut lines, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (n, (line, _)) in changed {
            numbers.push(n);
            lines.push(line);
            bytes += line.len();
            if bytes > CHUNK {
                connection.execute(PUT_LINES, &[&row, &numbers, &lines]).await?;
                (numbers, lines, bytes) = (Vec::new(), Vec::new(), 0);
            }
        }
        if !numbers.is_empty() {
            connection.execute(PUT_LINES, &[&row, &numbers, &lines]).await?;
        }
        let count = number(self.line_count());
        if known.keys().next_back().is_none_or(|last| *last < count) {
            return Ok(());
        }
        connection.execute("DELETE FROM lines WHERE session = $1 AND n >= $2", &[&row, &count]).await?;
        Ok(())
    }
}

/// Writes the words of messages.
async fn put_words(connection: &mut Connection, row: i64, said: &SaidRows) -> Result<(), Failure> {
    let mut from = 0;
    while from < said.words.len() {
        let (mut to, mut bytes) = (from, 0);
        while let Some(words) = said.words.get(to).filter(|_| bytes <= CHUNK) {
            bytes += words.len();
            to += 1;
        }
        let part = from..to;
        connection
            .execute(
                PUT_WORDS,
                &[
                    &row,
                    &said.messages.get(part.clone()).unwrap_or_default(),
                    &said.parts.get(part.clone()).unwrap_or_default(),
                    &said.is_split.get(part.clone()).unwrap_or_default(),
                    &said.words.get(part).unwrap_or_default(),
                ],
            )
            .await?;
        from = to;
    }
    Ok(())
}

/// Returns the number of messages of a session whose words are indexed.
pub(super) async fn said(connection: &mut Connection, id: &SessionId) -> Result<u64, Failure> {
    let sql = "SELECT count(*) FROM said JOIN sessions USING (session) WHERE id = $1 AND part = 0";
    let rows = connection.query(sql, &[&id.as_str()]).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}
