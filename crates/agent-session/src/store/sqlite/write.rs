//! Writes one session of the database.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::journal::Durability;
use agent_core::{MessageRef, SessionId};
use rusqlite::{Connection, Transaction, params};

use super::super::summary::{LiveSummary, SessionSummary};
use super::super::write_lock::WriteLock;
use super::super::{BlockingSessionWriter, SessionReader, SessionRecord, WriteJob};
use super::rows::{self, List, Messages};
use super::{Failure, Shared, SqliteStore, held};
use crate::error::SessionError;
use crate::model::Session;

/// The writer of a session, and the records that wait for the database.
#[derive(Debug)]
pub(super) struct SqliteWriter {
    shared: Arc<Shared>,
    store: SqliteStore,
    id: SessionId,
    queue: Arc<Mutex<Queue>>,
    /// The summary of the session after the last record.
    summary: LiveSummary,
    /// Declared last, so that it is released after everything is written.
    _lock: WriteLock,
}

/// The waiting records in order. A job takes all of them, so that no record is written before an earlier one.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    /// Whether the session has a row.
    is_stored: bool,
    /// Set when a record could not be written, because nothing can be written after it.
    is_broken: bool,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    line: String,
    durability: Durability,
    /// The changes of a loop; `None` for the record of a group.
    of_loop: Option<OfLoop>,
    summary: SessionSummary,
    /// The session without its loops, for the first record of a new session.
    head: Option<String>,
}

/// The new messages of a record's loop.
#[derive(Debug)]
struct OfLoop {
    position: usize,
    loop_id: String,
    messages: Vec<(List, usize, MessageRef)>,
}

impl SqliteWriter {
    pub(super) fn open(store: &SqliteStore, id: &str) -> Result<(Self, Option<Session>), SessionError> {
        let lock = store.lock(id)?;
        let found = match store.read_session(id) {
            Ok(mut session) => {
                session.interrupt_running_branches();
                // The records move to the loops, so that all records of a session are written by one process.
                store.shared.write("written", |t| rows::put_session(t, &session, Messages::Kept))?;
                Some(session)
            }
            Err(SessionError::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let empty = Session::new(id.into(), "".into(), agent_core::Timestamp::default());
        let session = found.as_ref().unwrap_or(&empty);
        let writer = Self {
            shared: Arc::clone(&store.shared),
            store: store.clone(),
            id: SessionId::from(id),
            queue: Arc::new(Mutex::new(Queue { is_stored: found.is_some(), ..Queue::default() })),
            summary: LiveSummary::of(session),
            _lock: lock,
        };
        Ok((writer, found))
    }
}

impl BlockingSessionWriter for SqliteWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError> {
        let encode = |source| SessionError::Encode { what: "the session", source };
        let summary = self.summary.update(record).clone();
        let list = |list: List, messages: &[MessageRef], before: usize| {
            let new = messages.iter().enumerate().skip(before);
            new.map(|(place, m)| (list, place, m.clone())).collect::<Vec<_>>()
        };
        let of_loop = record.position.zip(record.record()).map(|(position, loop_record)| {
            let mut messages = list(List::Own, &loop_record.messages, record.own_before);
            messages.extend(list(List::Other, &loop_record.other_messages, record.other_before));
            OfLoop { position, loop_id: loop_record.loop_id.to_string(), messages }
        });
        let mut queue = held_queue(&self.queue);
        let head = match !queue.is_stored && queue.waiting.is_empty() {
            true => Some(record.session.head_value().map_err(encode)?.to_string()),
            false => None,
        };
        queue.waiting.push_back(Waiting {
            number: record.number,
            line: String::from_utf8_lossy(record.line).into_owned(),
            durability: record.durability,
            of_loop,
            summary,
            head,
        });
        drop(queue);
        let (shared, queue) = (Arc::clone(&self.shared), Arc::clone(&self.queue));
        Ok(Some(Box::new(move || {
            let mut connection = held(&shared.writer);
            drain(&mut connection, &queue).map_err(|f| f.named(&shared.path, "written"))
        })))
    }

    fn save(&mut self, session: &Session) -> Result<(), SessionError> {
        let mut connection = held(&self.shared.writer);
        let mut queue = held_queue(&self.queue);
        super::write(&mut connection, |t| rows::put_session(t, session, Messages::Kept))
            .map_err(|f| f.named(&self.shared.path, "written"))?;
        // The session contains the waiting records.
        queue.waiting.clear();
        queue.is_stored = true;
        drop(queue);
        drop(connection);
        self.summary = LiveSummary::of(session);
        Ok(())
    }

    fn reader(&self) -> Option<SessionReader> {
        let (store, queue, id) = (self.store.clone(), Arc::clone(&self.queue), self.id.clone());
        Some(Arc::new(move || {
            // The records that still wait are written first.
            let shared = &store.shared;
            drain(&mut held(&shared.writer), &queue).map_err(|f| f.named(&shared.path, "written"))?;
            store.read_session(id.as_str())
        }))
    }
}

fn held_queue(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes all waiting records in one transaction.
fn drain(connection: &mut Connection, queue: &Mutex<Queue>) -> Result<(), Failure> {
    let waiting = {
        let mut queue = held_queue(queue);
        if queue.is_broken {
            let text = "a record before it could not be written";
            return Err(SessionError::Database {
                path: connection.path().unwrap_or_default().into(),
                action: "written",
                source: text.into(),
            }
            .into());
        }
        std::mem::take(&mut queue.waiting)
    };
    if waiting.is_empty() {
        return Ok(());
    }
    let written = commit(connection, &waiting);
    let mut queue = held_queue(queue);
    queue.is_stored |= written.is_ok();
    queue.is_broken = written.is_err();
    written
}

fn commit(connection: &mut Connection, waiting: &VecDeque<Waiting>) -> Result<(), Failure> {
    let flushed = waiting.iter().any(|w| w.durability == Durability::Flushed);
    if flushed {
        connection.pragma_update(None, "synchronous", "FULL")?;
    }
    let written = super::write(connection, |t| waiting.iter().try_for_each(|record| put_record(t, record)));
    if flushed {
        connection.pragma_update(None, "synchronous", "NORMAL")?;
    }
    written
}

fn put_record(t: &Transaction<'_>, record: &Waiting) -> Result<(), Failure> {
    let session = rows::put_row(t, &record.summary, record.head.as_deref())?;
    t.prepare_cached("INSERT INTO records (session, number, line) VALUES (?1, ?2, ?3)")?.execute(params![
        session,
        rows::number(record.number),
        record.line
    ])?;
    let Some(brought) = &record.of_loop else { return Ok(()) };
    let row = rows::loop_row(t, session, brought.position, &brought.loop_id)?;
    for (list, place, message) in &brought.messages {
        let (body, words) = (rows::body_of(message)?, rows::words_of(message));
        rows::put_message(t, (session, row), *list, *place, &body, &words)?;
    }
    Ok(())
}
