//! The session store of the agent under test, with simulated faults around each of its calls.

use std::fmt;
use std::sync::Arc;

use agent_core::SessionId;
use agent_core::journal::JournalWarning;
use agent_session::{
    LoadedSession, PendingWrite, Salvaged, Session, SessionError, SessionReader, SessionRecord, SessionStore,
    SessionWriter,
};
use async_trait::async_trait;

use crate::script::StoreFault;
use crate::world::World;

/// The store as one process of the agent uses it. A process that was killed has no effect on it.
#[derive(Clone)]
pub(crate) struct SimStore {
    inner: Arc<dyn SessionStore>,
    world: World,
}

impl SimStore {
    /// Wraps the store for the process of this handle.
    pub(crate) fn new(inner: Arc<dyn SessionStore>, world: &World) -> Self {
        Self { inner, world: world.clone() }
    }

    /// Makes a call, which can fail, and in which the process can be killed before and after it.
    async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, SessionError>> + Send,
    ) -> Result<T, SessionError> {
        self.world.moment().await;
        let fault = self.world.store_fault();
        if fault == Some(StoreFault::Before) {
            return Err(failed("the call did not reach the store"));
        }
        let result = call.await;
        self.world.moment().await;
        match fault {
            Some(_) => result.and(Err(failed("the reply of the store was lost"))),
            None => result,
        }
    }
}

fn failed(how: &str) -> SessionError {
    SessionError::store("the session", "used", format!("a simulated failure: {how}"))
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl SessionStore for SimStore {
    /// A recorder waits until a session with this description is closed, by all threads. Simulations can run concurrently.
    fn describe(&self) -> String {
        format!("{} ({})", self.inner.describe(), self.world.name())
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        self.call(self.inner.save_session(session)).await
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.call(self.inner.load_session(id)).await
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        self.call(self.inner.delete_session(id)).await
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.call(self.inner.list_session_ids()).await
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        let (inner, found) = self.call(self.inner.write_session(id)).await?;
        Ok((Box::new(SimWriter { inner, store: self.clone() }), found))
    }

    async fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        self.call(self.inner.salvage_session(id)).await
    }
}

/// A writer of the store, whose process can be killed while a record is written.
struct SimWriter {
    inner: Box<dyn SessionWriter>,
    store: SimStore,
}

impl fmt::Debug for SimWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWriter").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl SessionWriter for SimWriter {
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<PendingWrite>, SessionError> {
        let world = self.store.world.clone();
        if !world.lives() {
            return Err(failed("the process has ended"));
        }
        let fault = world.store_fault();
        if fault == Some(StoreFault::Before) {
            return Err(failed("the record did not reach the store"));
        }
        let pending = self.inner.append(record)?;
        Ok(Some(Box::pin(async move {
            world.moment().await;
            if let Some(pending) = pending {
                pending.await?;
            }
            world.moment().await;
            match fault {
                Some(_) => Err(failed("the reply of the store was lost")),
                None => Ok(()),
            }
        })))
    }

    async fn save(&mut self, session: Session) -> Result<(), SessionError> {
        let store = self.store.clone();
        store.call(self.inner.save(session)).await
    }

    fn reader(&self) -> Option<SessionReader> {
        self.inner.reader()
    }

    fn warning(&mut self) -> Option<JournalWarning> {
        self.inner.warning()
    }

    fn save_on_drop(&mut self, session: &Session) -> Result<(), SessionError> {
        match self.store.world.lives() {
            true => self.inner.save_on_drop(session),
            false => Ok(()),
        }
    }
}
