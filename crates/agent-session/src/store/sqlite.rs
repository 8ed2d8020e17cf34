//! Sessions in one SQLite database.
//!
//! | table | content |
//! |---|---|
//! | `sessions` | one row for each session: its own fields as JSON, and the columns of lists and searches |
//! | `loops` | one row for each loop: its JSON without its messages; the JSON is absent while the loop is only in records |
//! | `messages` | one row for each message |
//! | `records` | the records since the last save, one row for each input of a run; deleted by a save |
//! | `models` | the models that a session's loops used |
//! | `texts` | the words of the messages, for search (FTS5) |
//!
//! The database is in WAL mode: readers do not wait for writers. A record is a transaction. It survives the end of the
//! process and, if the run asks for it, a crash of the machine. The writer of a session holds a lock of the operating
//! system on a file in `{database}.locks`, as with [`JsonStore`](super::JsonStore).
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

mod find;
mod read;
mod rows;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_core::SessionId;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::write_lock::{self, WriteLock};
use super::{BlockingSessionStore, BlockingSessionWriter, FoundSessions, Salvaged, SessionQuery, files, id};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;

/// The default limit for the size of a session that is read: 512 MiB, the sum of its rows.
pub const MAX_SESSION_BYTES: u64 = 512 << 20;

/// A store of sessions in a SQLite database. Clones are handles to the same database.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
    max_session_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    locks: PathBuf,
    /// The connection for writes. SQLite allows one writer at a time.
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
}

impl SqliteStore {
    /// Opens a store in a database file. Creates the file if it does not exist, and updates the tables of an earlier
    /// version.
    ///
    /// # Errors
    /// When the file cannot be created, is not a database of sessions, is damaged, or has a later version.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, SessionError> {
        let path: PathBuf = path.into();
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".locks");
        let locks = path.with_file_name(name);
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            files::create_private(folder)?;
        }
        files::create_private(&locks)?;
        let writer = schema::open(&path)?;
        let reader = schema::connect(&path)?;
        let shared = Shared { path, locks, writer: Mutex::new(writer), reader: Mutex::new(reader) };
        Ok(Self { shared: Arc::new(shared), max_session_bytes: MAX_SESSION_BYTES })
    }

    /// Sets the maximum size in bytes of a session that is read; the default is [`MAX_SESSION_BYTES`].
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

    fn ids(&self, sql: &str) -> Result<Vec<SessionId>, SessionError> {
        self.shared.read("read", |t| {
            let mut statement = t.prepare_cached(sql)?;
            let ids = statement.query_map([], |row| row.get::<_, String>(0).map(SessionId::from))?;
            Ok(ids.collect::<Result<_, _>>()?)
        })
    }

    fn not_found(&self, id: &str) -> SessionError {
        SessionError::NotFound { id: id.to_owned(), store: self.shared.path.display().to_string() }
    }
}

impl Shared {
    /// Runs `work` in a read transaction.
    fn read<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, SessionError> {
        let mut connection = held(&self.reader);
        connection
            .transaction()
            .map_err(Failure::from)
            .and_then(|transaction| work(&transaction))
            .map_err(|f| f.named(&self.path, action))
    }

    /// Runs `work` in a write transaction, which is rolled back on an error.
    fn write<T>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, SessionError> {
        let mut connection = held(&self.writer);
        write(&mut connection, work).map_err(|f| f.named(&self.path, action))
    }
}

fn held(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}

/// The cause of a failure, before the path of the database is added.
enum Failure {
    Sqlite(rusqlite::Error),
    Session(SessionError),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

impl Failure {
    fn encode(source: serde_json::Error) -> Self {
        Self::Session(SessionError::Encode { what: "the session", source })
    }

    fn named(self, path: &Path, action: &'static str) -> SessionError {
        let error = match self {
            Self::Session(error) => return error,
            Self::Sqlite(error) => error,
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                SessionError::Locked { lock: path.display().to_string() }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                SessionError::corrupt(path, "the database", error)
            }
            _ => SessionError::Database { path: path.to_owned(), action, source: error.into() },
        }
    }
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
        self.shared.write("written", |t| rows::put_session(t, &merged, rows::Messages::Replaced))
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
        let gone =
            self.shared.write("changed", |t| Ok(t.execute("DELETE FROM sessions WHERE id = ?1", [id])?))?;
        if gone == 0 { Err(self.not_found(id)) } else { Ok(()) }
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.ids("SELECT id FROM sessions ORDER BY changed DESC")
    }

    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        self.ids(
            "SELECT id FROM sessions WHERE status NOT IN ('Completed', 'Rejected', 'Stopped', 'Failed')
             ORDER BY changed DESC",
        )
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
