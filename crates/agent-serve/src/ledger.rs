//! What each key has spent: a ledger that outlasts conversations and processes.
//!
//! The ledger of a process is a session of a store, which the process writes alone as long as it lives. For each key it has the
//! sum of all runs that have ended, and a mark for each run that is open. A mark is written before its run starts. It is replaced
//! by what the run has spent before a client learns that the run is over. The next process reads what marked runs have spent from
//! their sessions. The ledger is as large as the names of all keys and the runs that are open.

mod document;
mod recorded;
mod slot;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::{Environment, SessionId, Spending};
use agent_session::{SessionError, SessionStore};
use tokio::sync::oneshot;

pub(crate) use document::Mark;
pub(crate) use recorded::{last_loop, of_session};

use document::Document;
use slot::Slot;

/// The ledger of a service.
#[derive(Debug)]
pub(crate) struct Ledger {
    environment: Arc<dyn Environment>,
    current: Mutex<Current>,
    /// The version of the document that is stored.
    written: AtomicU64,
    slot: tokio::sync::Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Current {
    document: Document,
    /// The number of changes.
    version: u64,
}

impl Ledger {
    pub(crate) fn new(store: Arc<dyn SessionStore>, environment: Arc<dyn Environment>) -> Self {
        let slot = tokio::sync::Mutex::new(Slot::new(store));
        Self { environment, current: Mutex::default(), written: AtomicU64::new(0), slot }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a ledger for this process, and returns what the ledgers of the store have counted for each key. Runs that an ended
    /// process has left are counted by their sessions in `sessions`.
    pub(crate) async fn open(
        &self,
        sessions: &dyn SessionStore,
    ) -> Result<BTreeMap<String, Spending>, SessionError> {
        let mut slot = self.slot.lock().await;
        let (document, sums) = slot.open(sessions, &*self.environment).await?;
        self.lock().document = document;
        Ok(sums)
    }

    /// Adds a key that no ledger has, with what it has spent before.
    pub(crate) async fn add_key(self: &Arc<Self>, key: &str, spent: Spending) -> Result<(), SessionError> {
        self.change(|document| {
            document.key(key).spent = spent;
            true
        });
        self.write().await
    }

    /// Marks the run of a conversation that is about to start. A conversation has one mark, that of its open run.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        key: &str,
        id: &SessionId,
        mark: Mark,
    ) -> Result<(), SessionError> {
        self.change(|document| {
            let open = &mut document.key(key).open;
            let is_new = !open.contains_key(id);
            open.entry(id.clone()).or_insert(mark);
            is_new
        });
        self.write().await
    }

    /// Counts what a conversation has spent since the last call, and removes the mark of its run. `time_ms` is the time of all
    /// runs of the key.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        key: &str,
        id: &SessionId,
        spent: Spending,
        time_ms: u64,
    ) -> Result<(), SessionError> {
        self.change(|document| {
            let entry = document.key(key);
            entry.spent = entry.spent.plus(&spent);
            entry.spent.time_ms = entry.spent.time_ms.max(time_ms);
            entry.open.remove(id).is_some() || !spent.is_zero()
        });
        self.write().await
    }

    /// Changes the document. `change` returns whether it did.
    fn change(&self, change: impl FnOnce(&mut Document) -> bool) {
        let mut current = self.lock();
        current.version += u64::from(change(&mut current.document));
    }

    /// Completes when all changes so far are stored. Changes that wait at the same time are written together.
    pub(crate) async fn write(self: &Arc<Self>) -> Result<(), SessionError> {
        let (this, wanted) = (Arc::clone(self), self.lock().version);
        if self.written.load(Ordering::Acquire) >= wanted {
            return Ok(());
        }
        let (done, written) = oneshot::channel();
        // In a task, so that a client that goes away does not cut off the write.
        let task = async move {
            let _ = done.send(this.write_version(wanted).await);
        };
        let failed = |reason: String| SessionError::store("the ledger of the keys", "written", reason);
        self.environment.spawn(Box::pin(task)).map_err(|error| failed(error.to_string()))?;
        written.await.unwrap_or_else(|_| Err(failed("its task was dropped".to_owned())))
    }

    async fn write_version(&self, wanted: u64) -> Result<(), SessionError> {
        let mut slot = self.slot.lock().await;
        if self.written.load(Ordering::Acquire) >= wanted {
            return Ok(());
        }
        let (mut document, version) = {
            let current = self.lock();
            (current.document.clone(), current.version)
        };
        if let Some(others) = slot.reopen().await? {
            // Another process had the ledger meanwhile.
            document.add(&others);
            self.lock().document.add(&others);
        }
        slot.save(document, self.environment.now()).await?;
        self.written.store(version, Ordering::Release);
        Ok(())
    }
}
