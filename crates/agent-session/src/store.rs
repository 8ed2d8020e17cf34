//! Session storage: the [`SessionStore`] trait and its implementations.
//!
//! | store | contents | use it for |
//! |---|---|---|
//! | [`JsonStore`] | a directory with one JSON file per session, and a journal beside it while it is written | few sessions, files that can be copied and sent |
//! | [`SqliteStore`] | one database (feature `sqlite`) | thousands of sessions, full-text search |
//! | `PostgresStore` | a Postgres database (feature `postgres`) | several processes and machines, full-text search |
//!
//! All give the same guarantees: an acknowledged record survives the end of the process; a session has one writer, and a
//! second one gets [`SessionError::Locked`]; a save becomes visible as a whole or not at all; an id is checked before it
//! becomes part of a path; damaged data is a typed error that contains the place, and
//! [`salvage_session`](SessionStore::salvage_session) returns the rest.
//!
//! [`SessionStore`] is asynchronous; the first two stores do their work on the runtime's blocking pool. In code without a
//! runtime use [`BlockingSessionStore`], which these two implement too.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_session::{JsonStore, Session, SessionError, SessionQuery, SessionStore};
//! # let dir = tempfile::tempdir()?;
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store: &dyn SessionStore = &JsonStore::open(dir.path().join("sessions"))?;
//! store.save_session(&Session::new("s-1".into(), "agent".into(), Timestamp(1))).await?;
//! assert_eq!(store.list_session_ids().await?, ["s-1"]);
//! assert!(matches!(store.load_session("../s-1").await, Err(SessionError::InvalidId { .. })));
//!
//! let found = store.find_sessions(&SessionQuery::new().with_agent("agent")).await?;
//! assert_eq!((found.total, found.sessions[0].summary.loops), (1, 0));
//! # Ok::<(), agent_session::BoxError>(())
//! # })?;
//! # Ok::<(), agent_session::BoxError>(())
//! ```

mod blocking;
mod broken;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod database;
pub(crate) mod files;
mod id;
pub(crate) mod journal;
mod json;
pub(crate) mod lines;
mod pool_writer;
#[cfg(feature = "postgres")]
mod postgres;
mod query;
mod record;
mod salvage;
mod size_limit;
#[cfg(feature = "sqlite")]
mod sqlite;
mod summary;
mod version;
mod words;
mod write_lock;

use std::fmt;
use std::sync::Arc;

use agent_core::SessionId;
use async_trait::async_trait;

pub use blocking::{BlockingSessionStore, BlockingSessionWriter, MAX_WRITE_JOBS, WriteJob};
pub(crate) use blocking::{drop_on_pool, on_pool};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use database::MAX_SESSION_BYTES;
pub use id::MAX_ID_BYTES;
pub use json::{AgentSessions, JsonStore, MAX_FILE_BYTES};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresConfig, PostgresStore};
pub use query::{FoundSession, FoundSessions, MAX_PAGE, Order, SessionQuery, SortBy, TextHit};
pub use record::{PendingWrite, SessionReader, SessionRecord, SessionWriter};
pub use salvage::{Loss, Salvaged};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use summary::SessionSummary;

use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::unfinished::UnfinishedSessions;

/// A store of sessions. Implement it to store sessions in another place: a database, an object store or a service.
///
/// An implementation has to guarantee four things. A record that was acknowledged survives the end of the process. A
/// session has at most one writer, and a second one gets [`SessionError::Locked`]. A save becomes visible as a whole or
/// not at all. Data that cannot be read is an error and never an empty session.
///
/// A store whose calls block implements [`BlockingSessionStore`] instead. The page `docs/guides/own-store.md` describes
/// both and contains a complete store in memory.
#[async_trait]
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Describes the store for messages to the user, for example by its address.
    fn describe(&self) -> String {
        format!("{self:?}")
    }

    /// Saves a session and merges it with the stored version: loops that exist only in the store are preserved, so that
    /// saving a stale copy never deletes newer loops. [`Session::merged_into`] does the merging.
    ///
    /// # Errors
    /// [`SessionError::Locked`] when another writer has it; also when the stored version is damaged or the session
    /// cannot be written. The stored version is unchanged then.
    async fn save_session(&self, session: &Session) -> Result<(), SessionError>;

    /// Loads a session. A loop that is open although no writer has the session was cut off; it is returned as
    /// [`Interrupted`](crate::LoopStatus::Interrupted). Implementations call [`LoadedSession::interrupted`] for this.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] when there is no such session; also when it is damaged, too large, or of a later
    /// version.
    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError>;

    /// Deletes a session.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] when there is no such session, [`SessionError::Locked`] when a writer has it.
    async fn delete_session(&self, id: &str) -> Result<(), SessionError>;

    /// Returns the ids of all sessions; the session that was written last is the first.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError>;

    /// Returns the ids of the sessions that can have an open run, in the order of
    /// [`list_session_ids`](Self::list_session_ids). The list may contain others; by default it contains all sessions.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.list_session_ids().await
    }

    /// Returns the open runs of the store, newest first. By default it loads the
    /// [sessions that can have one](Self::list_open_session_ids). A store that keeps the summary of a session beside it can
    /// answer from the summary.
    ///
    /// # Errors
    /// When the store cannot be listed. Sessions that cannot be read are reported beside the runs.
    async fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        let mut found = UnfinishedSessions::default();
        for id in self.list_open_session_ids().await? {
            found.add(id.clone(), self.load_session(id.as_str()).await);
        }
        Ok(found)
    }

    /// Returns the ids of the sessions that can have a deferred call without a result, in the order of
    /// [`list_session_ids`](Self::list_session_ids). The list may contain others; by default it contains all sessions.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.list_session_ids().await
    }

    /// Returns one page of the sessions that match a query. By default it loads every session.
    ///
    /// # Errors
    /// When the store cannot be read or the query is invalid. A session that cannot be read is reported in
    /// [`FoundSessions::unreadable`].
    async fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        let mut found = FoundSessions::default();
        for id in self.list_session_ids().await? {
            match self.load_session(id.as_str()).await.and_then(|session| query.matches(&session)) {
                Ok(session) => found.sessions.extend(session),
                Err(SessionError::NotFound { .. }) => {}
                Err(error @ SessionError::InvalidQuery { .. }) => return Err(error),
                Err(error) => found.unreadable.push((id, error)),
            }
        }
        Ok(found.page(query))
    }

    /// Opens a session for writing, as its only writer, and returns what is stored of it.
    ///
    /// # Errors
    /// [`SessionError::Locked`] when another writer has it; otherwise as [`load_session`](Self::load_session), except
    /// that a session that does not exist is `None`.
    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError>;

    /// Returns the readable part of a damaged session and a list of what is missing. Nothing is changed. By default it
    /// loads the session.
    ///
    /// # Errors
    /// When there is no such session, or no part of it can be read.
    async fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        Ok(Salvaged::new(self.load_session(id).await?.into_session(), Vec::new()))
    }

    /// Returns the sessions of an agent, newest first. Sessions that cannot be read are reported beside them.
    ///
    /// # Errors
    /// When the store cannot be listed.
    async fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
        let mut found = AgentSessions::default();
        for id in self.list_session_ids().await? {
            found.add(agent_id, id.clone(), self.load_session(id.as_str()).await);
        }
        Ok(found)
    }
}

#[async_trait]
impl<S: SessionStore + ?Sized> SessionStore for Arc<S> {
    fn describe(&self) -> String {
        (**self).describe()
    }

    async fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        (**self).save_session(session).await
    }

    async fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        (**self).load_session(id).await
    }

    async fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        (**self).delete_session(id).await
    }

    async fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        (**self).list_session_ids().await
    }

    async fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        (**self).list_open_session_ids().await
    }

    async fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        (**self).list_unfinished().await
    }

    async fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        (**self).list_deferring_session_ids().await
    }

    async fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        (**self).find_sessions(query).await
    }

    async fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        (**self).write_session(id).await
    }

    async fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        (**self).salvage_session(id).await
    }

    async fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
        (**self).load_sessions_for_agent(agent_id).await
    }
}

#[cfg(test)]
mod tests;
