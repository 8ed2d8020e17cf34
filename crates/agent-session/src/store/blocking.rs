//! Stores whose calls block, and the adapter that makes them asynchronous.

use std::fmt;
use std::sync::Arc;

use agent_core::SessionId;
use agent_core::journal::JournalWarning;
use async_trait::async_trait;

use super::pool_writer::PoolWriter;
use super::record::{SessionReader, SessionRecord, SessionWriter};
use super::{AgentSessions, FoundSessions, JsonStore, Salvaged, SessionQuery, SessionStore};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::unfinished::UnfinishedSessions;

/// The rest of a blocking write: the record is durable when it has returned. It returns the number of the last record of the
/// session that it knows to be durable, at least that of its own record; the jobs of the records up to it do not run.
pub type WriteJob = Box<dyn FnOnce() -> Result<u64, SessionError> + Send>;

/// The maximum number of [`WriteJob`]s of all sessions that run at the same time; twice the number of processors where
/// that is less. Others wait without a thread.
pub const MAX_WRITE_JOBS: usize = 16;

/// A store of sessions whose calls block, such as a directory or an embedded database. The methods and their guarantees
/// are those of [`SessionStore`].
///
/// [`JsonStore`] and [`SqliteStore`](crate::SqliteStore) implement it, for programs and tests without a runtime. An
/// `Arc<dyn BlockingSessionStore>` is a [`SessionStore`], which makes each call on the runtime's blocking pool.
pub trait BlockingSessionStore: fmt::Debug + Send + Sync {
    /// Describes the store for messages to the user.
    fn describe(&self) -> String {
        format!("{self:?}")
    }

    /// As [`SessionStore::save_session`].
    ///
    /// # Errors
    /// As there.
    fn save_session(&self, session: &Session) -> Result<(), SessionError>;

    /// As [`SessionStore::load_session`].
    ///
    /// # Errors
    /// As there.
    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError>;

    /// As [`SessionStore::delete_session`].
    ///
    /// # Errors
    /// As there.
    fn delete_session(&self, id: &str) -> Result<(), SessionError>;

    /// As [`SessionStore::list_session_ids`].
    ///
    /// # Errors
    /// As there.
    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError>;

    /// As [`SessionStore::list_open_session_ids`].
    ///
    /// # Errors
    /// As there.
    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.list_session_ids()
    }

    /// As [`SessionStore::list_unfinished`].
    ///
    /// # Errors
    /// As there.
    fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        let mut found = UnfinishedSessions::default();
        for id in self.list_open_session_ids()? {
            found.add(id.clone(), self.load_session(id.as_str()));
        }
        Ok(found)
    }

    /// As [`SessionStore::list_deferring_session_ids`].
    ///
    /// # Errors
    /// As there.
    fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.list_session_ids()
    }

    /// As [`SessionStore::find_sessions`].
    ///
    /// # Errors
    /// As there.
    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError>;

    /// As [`SessionStore::write_session`].
    ///
    /// # Errors
    /// As there.
    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError>;

    /// As [`SessionStore::salvage_session`].
    ///
    /// # Errors
    /// As there.
    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError>;

    /// As [`SessionStore::load_sessions_for_agent`].
    ///
    /// # Errors
    /// As there.
    fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
        let mut found = AgentSessions::default();
        for id in self.list_session_ids()? {
            found.add(agent_id, id.clone(), self.load_session(id.as_str()));
        }
        Ok(found)
    }
}

/// The right to write one session of a blocking store. It ends when the writer is dropped.
pub trait BlockingSessionWriter: fmt::Debug + Send {
    /// Writes a record. The record is durable after the returned job has run, and without a job when the call returns.
    ///
    /// A job must complete all records that were appended before it runs: where the jobs of several records wait at the
    /// same time, one of them runs for all, and the others are dropped. At most [`MAX_WRITE_JOBS`] jobs run at a time.
    ///
    /// # Errors
    /// When the record cannot be written. The caller drops the writer and opens the session again.
    fn append(&mut self, record: &SessionRecord<'_>) -> Result<Option<WriteJob>, SessionError>;

    /// Writes the whole session, which replaces all records so far.
    ///
    /// # Errors
    /// When the session cannot be written. The records are unchanged then.
    fn save(&mut self, session: &Session) -> Result<(), SessionError>;

    /// Returns a reader, as [`SessionWriter::reader`] does.
    fn reader(&self) -> Option<SessionReader> {
        None
    }

    /// Returns a warning, as [`SessionWriter::warning`] does.
    fn warning(&mut self) -> Option<JournalWarning> {
        None
    }
}

/// Runs blocking work on the runtime's blocking pool, or in place if there is no runtime.
pub(crate) async fn on_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SessionError> + Send + 'static,
) -> Result<T, SessionError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(SessionError::store("the session store", "used in the background", error)),
    }
}

/// Drops a large value on the runtime's blocking pool, or in place if there is no runtime.
pub(crate) fn drop_on_pool<T: Send + 'static>(value: T) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(value))),
        Err(_) => drop(value),
    }
}

macro_rules! on_the_pool {
    ($store:ty, $borrow:path) => {
        #[async_trait]
        impl SessionStore for $store {
            fn describe(&self) -> String {
                BlockingSessionStore::describe($borrow(self))
            }

            async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
                let (store, session) = (self.clone(), session.clone());
                on_pool(move || BlockingSessionStore::save_session($borrow(&store), &session)).await
            }

            async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
                let (store, id) = (self.clone(), id.to_owned());
                on_pool(move || BlockingSessionStore::load_session($borrow(&store), &id)).await
            }

            async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
                let (store, id) = (self.clone(), id.to_owned());
                on_pool(move || BlockingSessionStore::delete_session($borrow(&store), &id)).await
            }

            async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
                let store = self.clone();
                on_pool(move || BlockingSessionStore::list_session_ids($borrow(&store))).await
            }

            async fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
                let store = self.clone();
                on_pool(move || BlockingSessionStore::list_open_session_ids($borrow(&store))).await
            }

            async fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
                let store = self.clone();
                on_pool(move || BlockingSessionStore::list_unfinished($borrow(&store))).await
            }

            async fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
                let store = self.clone();
                on_pool(move || BlockingSessionStore::list_deferring_session_ids($borrow(&store))).await
            }

            async fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
                let (store, query) = (self.clone(), query.clone());
                on_pool(move || BlockingSessionStore::find_sessions($borrow(&store), &query)).await
            }

            async fn write_session(
                &self,
                id: &str,
            ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
                let (store, id) = (self.clone(), id.to_owned());
                let (writer, found) =
                    on_pool(move || BlockingSessionStore::write_session($borrow(&store), &id)).await?;
                Ok((Box::new(PoolWriter::new(writer)), found))
            }

            async fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
                let (store, id) = (self.clone(), id.to_owned());
                on_pool(move || BlockingSessionStore::salvage_session($borrow(&store), &id)).await
            }

            async fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
                let (store, agent) = (self.clone(), agent_id.to_owned());
                on_pool(move || BlockingSessionStore::load_sessions_for_agent($borrow(&store), &agent)).await
            }
        }
    };
}

on_the_pool!(JsonStore, std::convert::identity);
#[cfg(feature = "sqlite")]
on_the_pool!(super::SqliteStore, std::convert::identity);
on_the_pool!(Arc<dyn BlockingSessionStore>, std::ops::Deref::deref);
