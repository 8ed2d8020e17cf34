//! Writes the records of all sessions of a store, in transactions that contain every record that waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agent_core::{MessageRef, SessionId};
use tokio_postgres::types::ToSql;

use super::Shared;
use super::connection::{Connection, Use};
use super::failure::Failure;
use super::lease;
use super::rows::{Columns, SaidRows, Whole};
use crate::error::{BoxError, SessionError};
use crate::model::Session;
use crate::store::database::{Words, number};
use crate::store::summary::{SessionSummary, Waits};

/// Appends records to a session, if its lease is valid and the stored records end before them. Returns whether the lease is
/// valid, and whether the records were written. The statement holds the row of the lease, as [`lease::hold`] does.
const APPEND: &str = "
    WITH held AS (
        UPDATE leases SET expires_at = clock_timestamp() + make_interval(secs => $3)
        WHERE id = $1 AND fence = $2 AND expires_at > clock_timestamp() RETURNING 1
    ), put AS (
        UPDATE sessions SET agent = $4, parent = $5, models = $6, created_at = $7, last_active_at = $8, status = $9,
            tokens = $10, cost = $11, deferred = $12, records = $13, sealed = $14, changed = nextval('changes')
        WHERE id = $1 AND records = $15 AND EXISTS (SELECT FROM held) RETURNING session
    ), put_records AS (
        INSERT INTO records (session, number, line)
        SELECT put.session, x.number, x.line FROM put, unnest($16::int8[], $17::bytea[]) AS x (number, line)
    ), put_words AS (
        INSERT INTO said (session, message, part, is_split, words)
        SELECT put.session, x.message, x.part, x.is_split, array_to_tsvector(string_to_array(x.words, ' '))
        FROM put, unnest($18::int8[], $19::int4[], $20::bool[], $21::text[]) AS x (message, part, is_split, words)
    )
    SELECT EXISTS (SELECT FROM held), EXISTS (SELECT FROM put)";

/// The records that wait for the server, of all sessions, in their order.
#[derive(Debug, Default)]
pub(super) struct Committer {
    queue: Mutex<VecDeque<Arc<Waiting>>>,
    /// Held while a transaction is prepared and written, so that records are written in their order.
    turn: tokio::sync::Mutex<()>,
}

/// A session that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) id: SessionId,
    pub(super) fence: i64,
    state: Mutex<State>,
}

/// What is known of the rows of a session.
#[derive(Debug, Clone)]
enum State {
    New,
    /// The number of its lines.
    Stored(u64),
    /// A record could not be written, so that nothing can be written after it.
    Broken(Refusal),
}

/// The reason why a record was not written.
#[derive(Debug, Clone)]
pub(super) enum Refusal {
    /// The lease is not valid any more.
    LeaseLost(String),
    /// The cause, which all records of the transaction share.
    Failed(Arc<dyn std::error::Error + Send + Sync>),
}

impl Writing {
    pub(super) fn new(id: SessionId, fence: i64, lines: Option<u64>) -> Self {
        Self { id, fence, state: Mutex::new(lines.map_or(State::New, State::Stored)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_lines(&self, lines: u64) {
        *self.state() = State::Stored(lines);
    }

    pub(super) fn refuse(&self, refusal: Refusal) {
        *self.state() = State::Broken(refusal);
    }

    /// Returns the reason why nothing can be written any more.
    pub(super) fn broken(&self) -> Option<Refusal> {
        match &*self.state() {
            State::Broken(refusal) => Some(refusal.clone()),
            State::New | State::Stored(_) => None,
        }
    }

    fn lines(&self) -> u64 {
        match *self.state() {
            State::Stored(lines) => lines,
            State::New | State::Broken(_) => 0,
        }
    }
}

impl Refusal {
    pub(super) fn failed(cause: impl Into<BoxError>) -> Self {
        Self::Failed(cause.into().into())
    }

    pub(super) fn error(self, shared: &Shared, id: &SessionId) -> SessionError {
        match self {
            Self::LeaseLost(reason) => SessionError::LeaseLost { session_id: id.clone(), reason },
            Self::Failed(cause) => {
                let path = std::path::PathBuf::from(&shared.place);
                SessionError::Database { path, action: "written", source: Box::new(cause) }
            }
        }
    }
}

/// A record that waits for the server.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) session: Arc<Writing>,
    pub(super) number: u64,
    pub(super) line: Vec<u8>,
    /// The new messages that are found by their words, and the number of the first one in the session.
    pub(super) messages: Vec<MessageRef>,
    pub(super) first_message: u64,
    pub(super) summary: SessionSummary,
    pub(super) waits: Option<Arc<Waits>>,
    /// The session without its loops, for the first record of a new session.
    pub(super) begin: Option<Session>,
    /// The result of its transaction.
    pub(super) outcome: OnceLock<Result<(), Refusal>>,
}

/// The records of one session in a transaction.
struct Group {
    session: Arc<Writing>,
    records: Vec<Arc<Waiting>>,
    begin: Option<Whole>,
    columns: Columns,
    lines: u64,
    before: i64,
    numbers: Vec<i64>,
    bytes: Vec<Vec<u8>>,
    said: SaidRows,
}

/// The result of the records of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Written,
    LeaseLost,
    /// The stored records do not end before these.
    Missing,
}

impl Committer {
    /// Adds a record, which [`complete`] or [`commit_all`] writes.
    pub(super) fn add(&self, record: Arc<Waiting>) {
        self.queue().push_back(record);
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<Waiting>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Completes a record: writes it with all others that wait, unless that was done for an earlier one.
pub(super) async fn complete(shared: &Arc<Shared>, record: &Waiting) -> Result<(), SessionError> {
    if record.outcome.get().is_none() {
        let turn = shared.committer.turn.lock().await;
        if record.outcome.get().is_none() {
            commit_waiting(shared).await;
        }
        drop(turn);
    }
    let outcome = record.outcome.get().cloned();
    let refusal = match outcome {
        Some(Ok(())) => return Ok(()),
        Some(Err(refusal)) => refusal,
        None => Refusal::failed("it does not wait for the server"),
    };
    Err(refusal.error(shared, &record.session.id))
}

/// Writes all records that wait.
pub(super) async fn commit_all(shared: &Arc<Shared>) {
    let _turn = shared.committer.turn.lock().await;
    commit_waiting(shared).await;
}

/// Writes all records that wait in one transaction. The caller has the turn.
async fn commit_waiting(shared: &Arc<Shared>) {
    let waiting = std::mem::take(&mut *shared.committer.queue());
    let mut batch = Vec::new();
    for record in waiting {
        match record.session.broken() {
            Some(refusal) => drop(record.outcome.set(Err(refusal))),
            None => batch.push(record),
        }
    }
    if batch.is_empty() {
        return;
    }
    let all = batch.clone();
    // Words and lines are made outside of the driver's thread.
    let made = tokio::task::spawn_blocking(move || groups(batch)).await;
    let made = made.unwrap_or_else(|error| Err(SessionError::store("records", "encoded", error)));
    let written = match made {
        Ok(groups) => write(shared, &groups).await.map(|verdicts| (groups, verdicts)),
        Err(error) => Err(error.into()),
    };
    match written {
        Ok((groups, verdicts)) => {
            for (group, verdict) in groups.iter().zip(verdicts) {
                group.end(&match verdict {
                    Verdict::Written => Ok(()),
                    Verdict::LeaseLost => Err(Refusal::LeaseLost(reason(shared, &group.session).await)),
                    Verdict::Missing => Err(Refusal::failed(format!(
                        "session {} does not end with record {} any more",
                        group.session.id, group.before
                    ))),
                });
            }
        }
        Err(failure) => {
            let refusal = match failure.named(&shared.place, "written") {
                SessionError::Database { source, .. } => Refusal::failed(source),
                other => Refusal::failed(other),
            };
            for record in all {
                record.session.refuse(refusal.clone());
                let _ = record.outcome.set(Err(refusal.clone()));
            }
        }
    }
}

/// Returns why a lease is not valid, as far as the server tells it.
pub(super) async fn reason(shared: &Arc<Shared>, session: &Writing) -> String {
    let ask = async {
        let mut used = shared.pool.get(Use::Other).await?;
        let reason = lease::reason(&mut used.connection, &session.id, session.fence).await?;
        used.back();
        Ok::<_, Failure>(reason)
    };
    ask.await.unwrap_or_else(|_| "it ended".to_owned())
}

/// Makes the rows of records, for each session.
fn groups(batch: Vec<Arc<Waiting>>) -> Result<Vec<Group>, SessionError> {
    let mut sessions: BTreeMap<SessionId, Vec<Arc<Waiting>>> = BTreeMap::new();
    for record in batch {
        sessions.entry(record.session.id.clone()).or_default().push(record);
    }
    sessions.into_values().filter_map(|records| Group::new(records).transpose()).collect()
}

impl Group {
    fn new(records: Vec<Arc<Waiting>>) -> Result<Option<Self>, SessionError> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return Ok(None) };
        let session = Arc::clone(&first.session);
        let begin = first.begin.as_ref().map(|begin| Whole::new(begin, Words::Replaced, 0)).transpose()?;
        let lines = begin.as_ref().map_or_else(|| session.lines(), Whole::line_count);
        let mut said = SaidRows::default();
        for record in &records {
            let numbers = record.first_message..;
            numbers.zip(&record.messages).for_each(|(n, message)| said.add(n, message));
        }
        Ok(Some(Self {
            columns: Columns::of(&last.summary, last.waits.as_deref(), lines, (last.number, &last.line))?,
            before: number(first.number.saturating_sub(1)),
            numbers: records.iter().map(|record| number(record.number)).collect(),
            bytes: records.iter().map(|record| record.line.clone()).collect(),
            session,
            begin,
            lines,
            said,
            records,
        }))
    }

    fn end(&self, outcome: &Result<(), Refusal>) {
        match outcome {
            Ok(()) => self.session.set_lines(self.lines),
            Err(refusal) => self.session.refuse(refusal.clone()),
        }
        for record in &self.records {
            // A record has one transaction.
            let _ = record.outcome.set(outcome.clone());
        }
    }
}

/// Writes groups of records in one transaction, and returns the result of each.
async fn write(shared: &Shared, groups: &[Group]) -> Result<Vec<Verdict>, Failure> {
    let config = shared.config();
    let seconds = config.lease.as_secs_f64();
    let mut used = shared.pool.get(Use::Records).await?;
    let connection = &mut used.connection;
    // One statement is a transaction of its own.
    let is_one = groups.len() == 1 && groups.iter().all(|group| group.begin.is_none());
    if !is_one {
        connection.batch("BEGIN").await?;
    }
    for group in groups {
        if let Some(begin) = &group.begin {
            // Without a valid lease the append finds none, too.
            begin.put(connection, group.session.fence, config).await?;
        }
    }
    let verdicts = append(connection, groups, &seconds).await?;
    if !is_one {
        connection.batch("COMMIT").await?;
    }
    used.back();
    Ok(verdicts)
}

async fn append(
    connection: &mut Connection,
    groups: &[Group],
    seconds: &f64,
) -> Result<Vec<Verdict>, Failure> {
    let statement = connection.statement(APPEND).await?;
    let ids: Vec<&str> = groups.iter().map(|group| group.session.id.as_str()).collect();
    let params = groups.iter().zip(&ids).map(|(group, id)| -> Vec<&(dyn ToSql + Sync)> {
        let Group { session, columns: c, said, .. } = group;
        vec![
            id,
            &session.fence,
            seconds,
            &c.agent,
            &c.parent,
            &c.models,
            &c.created_at,
            &c.last_active_at,
            &c.status,
            &c.tokens,
            &c.cost,
            &c.deferred,
            &c.records,
            &c.sealed,
            &group.before,
            &group.numbers,
            &group.bytes,
            &said.messages,
            &said.parts,
            &said.is_split,
            &said.words,
        ]
    });
    let params: Vec<_> = params.collect();
    let mut verdicts = Vec::with_capacity(groups.len());
    for row in connection.query_each(&statement, params).await? {
        let (is_held, is_written): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        verdicts.push(match (is_held, is_written) {
            (false, _) => Verdict::LeaseLost,
            (true, false) => Verdict::Missing,
            (true, true) => Verdict::Written,
        });
    }
    Ok(verdicts)
}
