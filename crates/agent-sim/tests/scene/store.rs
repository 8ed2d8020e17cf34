//! A session store with leases and a group commit, on the clock of the simulation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::{Environment, SessionId};
use agent_session::{
    LoadedSession, PendingWrite, Session, SessionError, SessionRecord, SessionStore, SessionWriter,
};
use agent_sim::World;
use async_trait::async_trait;
use tokio::sync::Notify;

/// How long a writer has a session without a write.
const LEASE_MS: u64 = 30_000;
/// How long a transaction takes.
const COMMIT: Duration = Duration::from_millis(3);

/// What survives the processes.
#[derive(Debug, Default)]
pub(crate) struct Database(Mutex<BTreeMap<String, Row>>);

#[derive(Debug, Default, Clone)]
struct Row {
    saved: Option<Session>,
    records: Vec<Vec<u8>>,
    /// The number of the writer that has the session, and until when.
    lease: Option<(u64, u64)>,
    fences: u64,
}

impl Row {
    fn session(&self) -> Result<Option<Session>, SessionError> {
        self.saved.clone().map(|saved| saved.with_records(&self.records)).transpose()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CommitStore {
    database: Arc<Database>,
    environment: Arc<dyn Environment>,
}

impl CommitStore {
    pub(crate) fn new(world: &World) -> Self {
        Self { database: world.outside::<Database>(), environment: world.environment() }
    }

    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.database.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self, id: &str) -> SessionError {
        SessionError::NotFound { id: id.to_owned(), store: self.describe() }
    }

    fn holder(&self, row: &Row) -> Option<u64> {
        let now = self.environment.monotonic_ms();
        row.lease.filter(|(_, until)| *until > now).map(|(fence, _)| fence)
    }

    fn check_free(&self, id: &str, row: Option<&Row>) -> Result<(), SessionError> {
        match row.and_then(|row| self.holder(row)) {
            Some(_) => Err(SessionError::Locked { lock: format!("lease of {id}") }),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl SessionStore for CommitStore {
    fn describe(&self) -> String {
        "the simulated database".to_owned()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let mut rows = self.rows();
        let id = session.session_id.to_string();
        self.check_free(&id, rows.get(&id))?;
        let row = rows.entry(id).or_default();
        let merged = match row.session()? {
            Some(stored) => session.clone().merged_into(stored),
            None => session.clone(),
        };
        (row.saved, row.records) = (Some(merged), Vec::new());
        Ok(())
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        let rows = self.rows();
        let row = rows.get(id).ok_or_else(|| self.missing(id))?;
        let loaded = LoadedSession::new(row.session()?.ok_or_else(|| self.missing(id))?);
        Ok(if self.holder(row).is_some() { loaded } else { loaded.interrupted() })
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        let mut rows = self.rows();
        self.check_free(id, rows.get(id))?;
        rows.remove(id).map(drop).ok_or_else(|| self.missing(id))
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        Ok(self.rows().keys().map(|id| SessionId::from(id.as_str())).collect())
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        let mut rows = self.rows();
        self.check_free(id, rows.get(id))?;
        let row = rows.entry(id.to_owned()).or_default();
        row.fences += 1;
        row.lease = Some((row.fences, self.environment.monotonic_ms() + LEASE_MS));
        let found = row.session()?;
        let lease = Lease { store: self.clone(), id: id.to_owned(), fence: row.fences };
        Ok((Box::new(CommitWriter { lease: Arc::new(lease), shared: Arc::default() }), found))
    }
}

/// The records that wait for a transaction.
#[derive(Debug, Default)]
struct Batch {
    head: Option<Session>,
    waiting: Vec<Vec<u8>>,
    appended: u64,
    committed: u64,
    /// Whether a transaction runs.
    runs: bool,
    broken: bool,
}

#[derive(Debug, Default)]
struct Shared {
    batch: Mutex<Batch>,
    ended: Notify,
}

impl Shared {
    fn batch(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to write a session. It is given back when the writer and its transactions have ended.
#[derive(Debug)]
struct Lease {
    store: CommitStore,
    id: String,
    fence: u64,
}

impl Lease {
    /// Changes the row if this writer still has the session, and renews its lease.
    fn change(&self, change: impl FnOnce(&mut Row)) -> Result<(), SessionError> {
        let mut rows = self.store.rows();
        let row = rows.entry(self.id.clone()).or_default();
        // A lease that has ended is still that of its last writer.
        if row.lease.is_none_or(|(fence, _)| fence != self.fence) {
            let (session_id, reason) = (self.id.as_str().into(), "another writer has taken it".to_owned());
            return Err(SessionError::LeaseLost { session_id, reason });
        }
        row.lease = Some((self.fence, self.store.environment.monotonic_ms() + LEASE_MS));
        change(row);
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut rows = self.store.rows();
        if let Some(row) = rows.get_mut(&self.id)
            && row.lease.is_some_and(|(fence, _)| fence == self.fence)
        {
            row.lease = None;
        }
    }
}

#[derive(Debug)]
struct CommitWriter {
    lease: Arc<Lease>,
    shared: Arc<Shared>,
}

/// Waits until the record is committed. One transaction at a time has all records that wait at its start.
async fn commit(lease: Arc<Lease>, shared: Arc<Shared>, number: u64) -> Result<(), SessionError> {
    loop {
        let ended = shared.ended.notified();
        let begins = {
            let mut batch = shared.batch();
            if batch.committed >= number {
                return Ok(());
            }
            if batch.broken {
                return Err(SessionError::store("the session", "written", "an earlier transaction failed"));
            }
            !std::mem::replace(&mut batch.runs, true)
        };
        if !begins {
            ended.await;
            continue;
        }
        let (head, lines, appended) = {
            let mut batch = shared.batch();
            (batch.head.take(), std::mem::take(&mut batch.waiting), batch.appended)
        };
        lease.store.environment.sleep(COMMIT).await;
        let changed = lease.change(|row| {
            if row.saved.is_none() {
                row.saved = head;
            }
            row.records.extend(lines);
        });
        let mut batch = shared.batch();
        (batch.runs, batch.broken) = (false, changed.is_err());
        if changed.is_ok() {
            // What was appended while the transaction ran is not in it.
            batch.committed = appended;
        }
        drop(batch);
        shared.ended.notify_waiters();
        changed?;
    }
}

#[async_trait]
impl SessionWriter for CommitWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        let mut batch = self.shared.batch();
        if batch.appended == 0 {
            batch.head = Some(record.head()?);
        }
        batch.waiting.push(record.line.to_vec());
        batch.appended += 1;
        let number = batch.appended;
        Ok(Some(Box::pin(commit(Arc::clone(&self.lease), Arc::clone(&self.shared), number))))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        let pending = {
            let mut batch = self.shared.batch();
            batch.committed = batch.appended;
            std::mem::take(&mut batch.waiting)
        };
        drop(pending);
        self.lease.change(|row| {
            row.records = Vec::new();
            row.saved = Some(session);
        })
    }
}
