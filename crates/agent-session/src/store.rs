//! Where sessions lie: one interface, and two stores that keep it.
//!
//! | store | what it is | when |
//! |---|---|---|
//! | [`JsonStore`] | a directory: one readable JSON file for each session, and a journal beside it while it is written | few sessions, people who read files |
//! | [`SqliteStore`] | one database (feature `sqlite`) | thousands of sessions, search by what was said |
//!
//! Both promise the same: what was acknowledged survives the end of the process; a session has one writer and the second is
//! told ([`SessionError::Locked`]); a save is seen whole or not at all; an id is checked before it touches a path; what is
//! damaged is a typed error that names the place, and [`salvage_session`](SessionStore::salvage_session) gives the rest.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_session::{JsonStore, Session, SessionError, SessionQuery, SessionStore};
//! # let dir = tempfile::tempdir()?;
//! let store = JsonStore::open(dir.path().join("sessions"))?;
//! store.save_session(&Session::new("s-1".into(), "agent".into(), Timestamp(1)))?;
//! assert_eq!(store.list_session_ids()?, ["s-1"]);
//! assert!(matches!(store.load_session("../s-1"), Err(SessionError::InvalidId { .. })));
//!
//! let found = store.find_sessions(&SessionQuery::new().with_agent("agent"))?;
//! assert_eq!((found.total, found.sessions[0].summary.loops), (1, 0));
//! # Ok::<(), agent_session::BoxError>(())
//! ```

pub(crate) mod files;
mod id;
pub(crate) mod journal;
mod json;
mod merge;
mod query;
mod record;
mod salvage;
#[cfg(feature = "sqlite")]
mod sqlite;
mod summary;
mod version;
mod words;
mod write_lock;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use agent_core::SessionId;

pub use id::MAX_ID_BYTES;
pub use json::{AgentSessions, JsonStore, MAX_FILE_BYTES};
pub use query::{FoundSession, FoundSessions, MAX_PAGE, Order, SessionQuery, SortBy, TextHit};
pub use record::{SessionRecord, SessionWriter, WriteJob};
pub use salvage::{Loss, Salvaged};
#[cfg(feature = "sqlite")]
pub use sqlite::{MAX_SESSION_BYTES, SqliteStore};
pub use summary::SessionSummary;

use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;

/// Where sessions lie. Every call blocks; from a task, use `spawn_blocking`, as the recorder does.
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// The file that a session is in, for people: whether or not it is there.
    ///
    /// # Errors
    /// When the id cannot be the name of a file.
    fn location(&self, id: &str) -> Result<PathBuf, SessionError>;

    /// Writes a session. Loops that the store has of it and `session` has not are kept, so that an older copy in somebody's
    /// hand cannot erase a newer loop; where both have a loop, the one with more events stays (D30).
    ///
    /// # Errors
    /// When somebody else is writing it, when what is there is damaged, and when it cannot be written. Then what is there
    /// is as it was.
    fn save_session(&self, session: &Session) -> Result<(), SessionError>;

    /// Reads a session. A loop that is open and that nobody is writing was cut off and comes back as
    /// [`Interrupted`](crate::LoopStatus::Interrupted).
    ///
    /// # Errors
    /// When there is none, and when it is damaged, too large, or of a later version. It is whole or an error.
    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError>;

    /// Removes a session.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] when there is none, [`SessionError::Locked`] when somebody is writing it.
    fn delete_session(&self, id: &str) -> Result<(), SessionError>;

    /// The ids of all sessions, the one that was written last first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError>;

    /// The ids of sessions in which a run may be open, in the order of [`list_session_ids`](Self::list_session_ids). Others may be
    /// among them: a store that does not know names all.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.list_session_ids()
    }

    /// Sessions by what is asked for, sorted, a page of them.
    ///
    /// # Errors
    /// When the store cannot be read, or the query cannot be answered. A session that cannot be read is reported beside the
    /// others.
    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError>;

    /// Opens a session for writing, as its only writer, and says what is there of it.
    ///
    /// # Errors
    /// [`SessionError::Locked`] when somebody else is writing it; else as [`load_session`](Self::load_session), except that
    /// a session that is not there is none.
    fn write_session(&self, id: &str) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError>;

    /// What can be read of a session that is damaged, and what cannot. Nothing is changed; to go on with it, save it under
    /// another id, or delete the old one first.
    ///
    /// # Errors
    /// When there is none, or nothing of it can be read.
    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError>;

    /// The sessions of an agent, newest first. One that cannot be read is reported and keeps the others from nobody.
    ///
    /// # Errors
    /// When the store cannot be listed.
    fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
        let mut found = AgentSessions::default();
        for id in self.list_session_ids()? {
            match self.load_session(id.as_str()) {
                Ok(session) if session.agent_id == *agent_id => found.sessions.push(session),
                Ok(_) | Err(SessionError::NotFound { .. }) => {}
                Err(error) => found.unreadable.push((id, error)),
            }
        }
        Ok(found)
    }
}

impl<S: SessionStore + ?Sized> SessionStore for Arc<S> {
    fn location(&self, id: &str) -> Result<PathBuf, SessionError> {
        (**self).location(id)
    }

    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        (**self).save_session(session)
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        (**self).load_session(id)
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        (**self).delete_session(id)
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        (**self).list_session_ids()
    }

    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        (**self).list_open_session_ids()
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        (**self).find_sessions(query)
    }

    fn write_session(&self, id: &str) -> Result<(Box<dyn SessionWriter>, Option<Session>), SessionError> {
        (**self).write_session(id)
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        (**self).salvage_session(id)
    }

    fn load_sessions_for_agent(&self, agent_id: &str) -> Result<AgentSessions, SessionError> {
        (**self).load_sessions_for_agent(agent_id)
    }
}

#[cfg(test)]
mod tests;
