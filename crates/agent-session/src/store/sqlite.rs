//! Sessions in one SQLite database.
//!
//! | table | content |
//! |---|---|
//! | `sessions` | one row for each session: its sealed summary, and the columns for filters and the order of lists |
//! | `ids` | the row of each session by its id, as a second way to find it |
//! | `lines` | the saved session: the lines of [`JsonStore`](super::JsonStore)'s file, one row each |
//! | `records` | the records since the last save, one row for each input of a run; deleted by a save |
//! | `models` | the models that a session's loops used |
//! | `said`, `said_words` | the session of each message, and its words for search (FTS5) |
//! | `transactions` | the number of the last transaction |
//! | `loops`, `messages`, `places`, `texts` | the sessions of version 1, until they are saved again |
//!
//! Lines, records and summaries have checksums and numbers, so that damage is an error and never a shorter session. The file
//! `{database}.mark` has the number of the last acknowledged transaction: a database that lacks it, because its write-ahead
//! log was damaged or removed, is an error when it is opened.
//!
//! The database is in WAL mode: readers do not wait for writers. The records of all sessions that wait at the same time are
//! one transaction. A record survives the end of the process and, if the run asks for it, a crash of the machine. The writer
//! of a session holds a lock of the operating system on a file in `{database}.locks`, as with `JsonStore`.
//!
//! ```
//! use agent_core::Timestamp;
//! use agent_session::{BlockingSessionStore, Session, SqliteStore};
//! # let dir = tempfile::tempdir()?;
//! let store = SqliteStore::open(dir.path().join("sessions.db"))?;
//! store.save_session(&Session::new("s-1".into(), "agent".into(), Timestamp(1)))?;
//! assert_eq!(store.load_session("s-1")?.agent_id.as_str(), "agent");
//! # Ok::<(), agent_session::BoxError>(())
//! ```

mod commit;
mod failure;
mod find;
mod form1;
mod lookup;
mod mark;
mod read;
mod rows;
mod salvage;
mod schema;
mod shared;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::SessionId;
use agent_core::journal::Durability;

use self::failure::Failure;
use self::mark::Mark;
use self::rows::Whole;
use self::schema::Content;
use self::shared::Shared;
use super::database::{CAN_BE_OPEN, Words};
use super::write_lock::{self, WriteLock};
use super::{
    BlockingSessionStore, BlockingSessionWriter, FoundSessions, Loss, MAX_SESSION_BYTES, Salvaged,
    SessionQuery, files, id,
};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::unfinished::UnfinishedSessions;

/// A store of sessions in a SQLite database. Clones are handles to the same database.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    max_session_bytes: u64,
}

impl SqliteStore {
    /// Opens a store in a database file. Creates the file if it does not exist, and updates the tables of an earlier
    /// version.
    ///
    /// # Errors
    /// When the file cannot be created, is not a database of sessions, is damaged, or has a later version. A database that
    /// lacks acknowledged transactions is [`SessionError::Corrupt`]; [`open_with_losses`](Self::open_with_losses) opens it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, SessionError> {
        let path: PathBuf = path.into();
        let required = mark::required(&path)?;
        let shared = open(&path, if required > 0 { Content::Tables } else { Content::Any })?;
        let found = shared.last_transaction()?;
        if found < required {
            let text = format!(
                "transactions {} to {required} were acknowledged and are missing; {}",
                found + 1,
                schema::ADVICE
            );
            return Err(SessionError::corrupt(&path, "its transactions", text));
        }
        shared.mark.note(found, Durability::Buffered)?;
        Ok(Self { shared: Arc::new(shared), max_session_bytes: MAX_SESSION_BYTES })
    }

    /// Opens a database that lacks acknowledged transactions, and returns what was lost. The losses are accepted: a later
    /// [`open`](Self::open) does not report them again.
    ///
    /// # Errors
    /// As [`open`](Self::open), except for the missing transactions.
    pub fn open_with_losses(path: impl Into<PathBuf>) -> Result<(Self, Vec<Loss>), SessionError> {
        let path: PathBuf = path.into();
        let place = path.display().to_string();
        let (required, mut losses) = match mark::required(&path) {
            Ok(required) => (required, Vec::new()),
            Err(SessionError::Corrupt { .. }) => {
                let reason = "the file with the number of its last transaction is damaged";
                (0, vec![Loss::new(place.clone(), reason)])
            }
            Err(other) => return Err(other),
        };
        let shared = open(&path, Content::Any)?;
        let found = shared.last_transaction()?;
        if found < required {
            let reason =
                format!("transactions {} to {required} were acknowledged and are missing", found + 1);
            losses.push(Loss::new(place, reason));
        }
        shared.mark.reset(found)?;
        Ok((Self { shared: Arc::new(shared), max_session_bytes: MAX_SESSION_BYTES }, losses))
    }

    /// Sets the maximum size in bytes of a session that is read; the default is [`MAX_SESSION_BYTES`]. A writer refuses
    /// records with which the session would be larger, and new loops when less than an eighth is left
    /// ([`SessionError::Full`]), so that every session that was written can be read.
    #[must_use]
    pub fn with_max_session_bytes(mut self, bytes: u64) -> Self {
        self.max_session_bytes = bytes;
        self
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    fn lock_of(&self, id: &str) -> Result<PathBuf, SessionError> {
        id::check(id)?;
        Ok(self.shared.locks.join(format!("{id}.lock")))
    }

    fn lock(&self, id: &str) -> Result<WriteLock, SessionError> {
        WriteLock::take(self.lock_of(id)?)
    }

    /// Returns the ids of the sessions that match, newest first, and of those whose rows are missing.
    fn ids(&self, filter: &str) -> Result<Vec<SessionId>, SessionError> {
        self.shared.read("read", |t| {
            let sql = format!("SELECT id FROM sessions NOT INDEXED WHERE {filter} ORDER BY changed DESC");
            let mut statement = t.prepare_cached(&sql)?;
            let ids = statement.query_map([], |row| row.get::<_, String>(0).map(SessionId::from))?;
            let mut ids: Vec<SessionId> = ids.collect::<Result<_, _>>()?;
            ids.extend(find::lost_ids(t)?.into_iter().map(SessionId::from));
            Ok(ids)
        })
    }

    fn not_found(&self, id: &str) -> SessionError {
        SessionError::NotFound { id: id.to_owned(), store: self.shared.path.display().to_string() }
    }

    fn full(&self) -> SessionError {
        SessionError::Full { path: self.shared.path.clone(), limit: self.max_session_bytes }
    }
}

fn open(path: &Path, content: Content) -> Result<Shared, SessionError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".locks");
    let locks = path.with_file_name(name);
    if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        files::create_private(folder)?;
    }
    files::create_private(&locks)?;
    let writer = schema::open(path, content)?;
    Ok(Shared::new(path.to_owned(), locks, Mark::open(path)?, writer))
}

impl BlockingSessionStore for SqliteStore {
    fn describe(&self) -> String {
        self.shared.path.display().to_string()
    }

    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let id = session.session_id.as_str();
        let _lock = self.lock(id)?;
        let merged = match self.read_session(id) {
            Ok(stored) => session.clone().merged_into(stored),
            Err(SessionError::NotFound { .. }) => session.clone(),
            Err(other) => return Err(other),
        };
        let encoded = Whole::new(&merged, Words::Replaced)?;
        if encoded.bytes() > self.max_session_bytes {
            return Err(self.full());
        }
        self.shared.write(Durability::Buffered, |t| encoded.put(t)).map(drop)
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        let mut loaded = LoadedSession::new(self.read_session(id)?);
        if loaded.has_running_loop() && !write_lock::is_held(&self.lock_of(id)?) {
            loaded.mark_interrupted();
        }
        Ok(loaded)
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        let _lock = self.lock(id)?;
        let is_found = self.shared.write(Durability::Buffered, |t| rows::delete(t, id))?;
        if is_found { Ok(()) } else { Err(self.not_found(id)) }
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.ids("1")
    }

    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.ids(CAN_BE_OPEN)
    }

    fn list_unfinished(&self) -> Result<UnfinishedSessions, SessionError> {
        find::unfinished(self)
    }

    fn list_deferring_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        find::deferring_ids(self)
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        find::find(self, query)
    }

    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError> {
        let (writer, found) = write::SqliteWriter::open(self, id)?;
        Ok((Box::new(writer), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        self.salvage(id)
    }
}
