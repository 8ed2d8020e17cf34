//! Writes the records of all sessions, in transactions that contain every record that waits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use agent_core::journal::Durability;
use agent_core::{MessageRef, SessionId};
use rusqlite::{Transaction, params};

use super::Failure;
use super::rows::{self, Stored, Whole};
use super::shared::{Shared, held};
use crate::error::SessionError;
use crate::model::Session;
use crate::store::database::{self, Words, number};
use crate::store::summary::{SessionSummary, Waits};

/// The records that wait for the database, of all sessions, in their order.
#[derive(Debug, Default)]
pub(super) struct Committer {
    queue: Mutex<VecDeque<Arc<Waiting>>>,
    /// Held while a transaction is prepared and written, so that records are written in their order.
    turn: Mutex<()>,
}

/// A session that is being written.
#[derive(Debug)]
pub(super) struct Writing {
    id: SessionId,
    state: Mutex<State>,
}

/// What is known of the rows of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Stored(Stored),
    /// A record could not be written, so that nothing can be written after it.
    Broken,
}

impl Writing {
    pub(super) fn new(id: SessionId, stored: Option<Stored>) -> Self {
        Self { id, state: Mutex::new(stored.map_or(State::New, State::Stored)) }
    }

    pub(super) fn set_stored(&self, stored: Stored) {
        *held(&self.state) = State::Stored(stored);
    }

    pub(super) fn is_broken(&self) -> bool {
        *held(&self.state) == State::Broken
    }

    fn state(&self) -> State {
        *held(&self.state)
    }
}

/// A record that waits for the database.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) session: Arc<Writing>,
    pub(super) number: u64,
    pub(super) line: String,
    pub(super) durability: Durability,
    /// The new messages that are found by their words.
    pub(super) messages: Vec<MessageRef>,
    pub(super) words: OnceLock<Vec<String>>,
    pub(super) summary: SessionSummary,
    pub(super) waits: Option<Arc<Waits>>,
    /// The session without its loops, for the first record of a new session.
    pub(super) begin: Option<Session>,
    /// The result of its transaction, or the reason why it failed.
    pub(super) outcome: OnceLock<Result<(), String>>,
}

impl Waiting {
    fn words(&self) -> &[String] {
        self.words.get_or_init(|| self.messages.iter().map(database::words_of).collect())
    }

    fn end(&self, outcome: Result<(), String>) {
        // A record has one transaction.
        let _ = self.outcome.set(outcome);
    }
}

/// Returns the error of a session that cannot be written any more.
pub(super) fn broken(shared: &Shared) -> SessionError {
    failed(shared, "a record before it could not be written")
}

fn failed(shared: &Shared, reason: &str) -> SessionError {
    SessionError::Database { path: shared.path.clone(), action: "written", source: reason.into() }
}

impl Committer {
    /// Adds a record, which [`complete`] or [`commit_all`] writes.
    pub(super) fn add(&self, record: Arc<Waiting>) {
        held(&self.queue).push_back(record);
    }
}

/// Completes a record: writes it with all others that wait, unless another thread has done so.
pub(super) fn complete(shared: &Shared, record: &Waiting) -> Result<(), SessionError> {
    // Here, so that threads do it at the same time.
    record.words();
    if record.outcome.get().is_none() {
        let turn = held(&shared.committer.turn);
        if record.outcome.get().is_none() {
            commit_waiting(shared);
        }
        drop(turn);
    }
    match record.outcome.get() {
        Some(Ok(())) => Ok(()),
        Some(Err(reason)) => Err(failed(shared, reason)),
        None => Err(failed(shared, "it does not wait for the database")),
    }
}

/// Writes all records that wait.
pub(super) fn commit_all(shared: &Shared) {
    let _turn = held(&shared.committer.turn);
    commit_waiting(shared);
}

/// Writes all records that wait in one transaction. The caller has the turn.
fn commit_waiting(shared: &Shared) {
    let waiting = std::mem::take(&mut *held(&shared.committer.queue));
    let (broken, batch): (Vec<_>, Vec<_>) =
        waiting.into_iter().partition(|record| record.session.is_broken());
    for record in broken {
        record.end(Err("a record before it could not be written".to_owned()));
    }
    if batch.is_empty() {
        return;
    }
    let is_flushed = batch.iter().any(|record| record.durability == Durability::Flushed);
    let durability = if is_flushed { Durability::Flushed } else { Durability::Buffered };
    // Before the transaction, for those whose own threads have not done so.
    for record in &batch {
        record.words();
    }
    match shared.write(durability, |t| put(t, &batch)) {
        Ok(stored) => {
            for (session, stored) in stored {
                session.set_stored(stored);
            }
            batch.iter().for_each(|record| record.end(Ok(())));
        }
        Err(error) => {
            for record in &batch {
                *held(&record.session.state) = State::Broken;
                record.end(Err(error.to_string()));
            }
        }
    }
}

/// Writes records, and the summary of each session after its last one. Returns the rows of the sessions.
fn put(t: &Transaction<'_>, batch: &[Arc<Waiting>]) -> Result<Vec<(Arc<Writing>, Stored)>, Failure> {
    let mut sessions: BTreeMap<&SessionId, (Stored, &Waiting)> = BTreeMap::new();
    let mut insert = t.prepare_cached("INSERT INTO records (session, number, line) VALUES (?1, ?2, ?3)")?;
    for record in batch {
        let known = sessions.get(&record.session.id).map(|(stored, _)| *stored);
        let stored = match (known, record.session.state(), &record.begin) {
            (Some(stored), ..) | (None, State::Stored(stored), _) => stored,
            (None, _, Some(session)) => Whole::new(session, Words::Replaced)?.put(t)?,
            (None, ..) => {
                let id = record.session.id.as_str();
                return Err(Failure::damaged(id, "its row", "the session has no row".to_owned()));
            }
        };
        insert.execute(params![stored.row, number(record.number), record.line])?;
        for words in record.words() {
            rows::put_words(t, stored.row, words)?;
        }
        sessions.insert(&record.session.id, (stored, record));
    }
    let mut written = Vec::with_capacity(sessions.len());
    for (stored, last) in sessions.into_values() {
        let row = (last.number, last.line.as_bytes());
        rows::put_summary(t, stored, (&last.summary, last.waits.as_deref()), row)?;
        written.push((Arc::clone(&last.session), stored));
    }
    Ok(written)
}
