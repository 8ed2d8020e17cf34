//! The connections of a store.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_core::journal::Durability;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::commit::Committer;
use super::mark::Mark;
use super::{Failure, schema};
use crate::error::SessionError;

/// The maximum number of connections for reading that are kept open.
const MAX_IDLE: usize = 4;

/// The connections of all handles of a store.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) path: PathBuf,
    pub(super) locks: PathBuf,
    pub(super) mark: Mark,
    pub(super) committer: Committer,
    /// The connection for writes. SQLite allows one writer at a time.
    writer: Mutex<Connection>,
    /// The connections for reading that no thread uses.
    readers: Mutex<Vec<Connection>>,
}

impl Shared {
    pub(super) fn new(path: PathBuf, locks: PathBuf, mark: Mark, writer: Connection) -> Self {
        let committer = Committer::default();
        Self { path, locks, mark, committer, writer: Mutex::new(writer), readers: Mutex::default() }
    }

    /// Runs `work` in a read transaction. It waits neither for a writer nor for another reader.
    pub(super) fn read<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, SessionError> {
        let idle = held(&self.readers).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => schema::connect(&self.path)?,
        };
        let done = connection
            .transaction()
            .map_err(Failure::from)
            .and_then(|transaction| work(&transaction))
            .map_err(|f| f.named(&self.path, action));
        let mut readers = held(&self.readers);
        if readers.len() < MAX_IDLE {
            readers.push(connection);
        }
        done
    }

    /// Runs `work` in a write transaction, which is rolled back on an error, and notes its number beside the database.
    pub(super) fn write<T>(
        &self,
        durability: Durability,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, SessionError> {
        let mut connection = held(&self.writer);
        let (done, number) =
            commit(&mut connection, durability, work).map_err(|f| f.named(&self.path, "written"))?;
        self.mark.note(number, durability)?;
        Ok(done)
    }

    /// Returns the number of the last transaction.
    pub(super) fn last_transaction(&self) -> Result<u64, SessionError> {
        let number = held(&self.writer)
            .query_row("SELECT number FROM transactions", [], |row| row.get::<_, i64>(0))
            .map_err(|error| Failure::from(error).named(&self.path, "read"))?;
        Ok(u64::try_from(number).unwrap_or_default())
    }
}

/// Runs a transaction and returns its number.
fn commit<T>(
    connection: &mut Connection,
    durability: Durability,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let is_flushed = durability == Durability::Flushed;
    if is_flushed {
        connection.pragma_update(None, "synchronous", "FULL")?;
    }
    let transact = || -> Result<(T, u64), Failure> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let number: i64 = transaction
            .prepare_cached("UPDATE transactions SET number = number + 1 RETURNING number")?
            .query_row([], |row| row.get(0))?;
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok((done, u64::try_from(number).unwrap_or_default()))
    };
    let done = transact();
    if is_flushed {
        connection.pragma_update(None, "synchronous", "NORMAL")?;
    }
    done
}

/// Locks a mutex, also after a panic of another thread.
pub(super) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
