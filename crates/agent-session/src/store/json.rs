//! A directory of sessions: one readable JSON file each, and a journal beside it while one is being written.
//!
//! | file | what |
//! |---|---|
//! | `{session_id}.json` | the session, replaced as a whole: written beside, flushed, renamed |
//! | `{session_id}.journal.jsonl` | what is not in it yet, one line for each input of a run; only appended to |
//! | `{session_id}.lock` | locked by the one who writes; it goes when it is unlocked |
//!
//! Reading needs no lock: it takes the JSON file and the journal together, as they are at that moment.

mod find;
mod header;
mod listing;
mod read;
mod salvage;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::SessionId;

pub use listing::AgentSessions;
use read::read_json;

use super::write_lock::{self, WriteLock};
use super::{BlockingSessionStore, BlockingSessionWriter, FoundSessions, Salvaged, SessionQuery, files, id};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;

/// The default limit for the size of a file that is read: 512 MiB.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// A directory of sessions. A clone is the same directory.
#[derive(Debug, Clone)]
pub struct JsonStore {
    dir: Arc<Path>,
    max_file_bytes: u64,
}

impl JsonStore {
    /// A store in this directory, which is made where it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, SessionError> {
        let dir: PathBuf = dir.into();
        std::fs::create_dir_all(&dir).map_err(SessionError::io(&dir, "made"))?;
        Ok(Self { dir: dir.into(), max_file_bytes: MAX_FILE_BYTES })
    }

    /// The same store, which reads files of at most this many bytes.
    #[must_use]
    pub fn with_max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }

    pub(super) fn max_file_bytes(&self) -> u64 {
        self.max_file_bytes
    }

    /// Returns the directory of the sessions.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The readable file of a session, whether or not it is there.
    ///
    /// # Errors
    /// When the id cannot be the name of a file.
    pub fn path_of(&self, id: impl AsRef<str>) -> Result<PathBuf, SessionError> {
        self.file(id.as_ref(), ".json")
    }

    pub(in crate::store) fn journal_of(&self, id: &str) -> Result<PathBuf, SessionError> {
        self.file(id, ".journal.jsonl")
    }

    fn lock_of(&self, id: &str) -> Result<PathBuf, SessionError> {
        self.file(id, ".lock")
    }

    fn file(&self, id: &str, ending: &str) -> Result<PathBuf, SessionError> {
        id::check(id)?;
        Ok(self.dir.join(format!("{id}{ending}")))
    }

    /// Writes a session. Loops that exist only in the store are retained, so that saving an older copy
    /// cannot erase a newer loop; of a loop that both have, the version with more events stays.
    ///
    /// # Errors
    /// When another process or recorder is writing it, when the stored version is damaged, and when it cannot be written. The
    /// stored version is unchanged then.
    pub fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let id = session.session_id.as_str();
        let _lock = self.lock(id)?;
        let merged = match self.read(id) {
            Ok(loaded) => session.clone().merged_into(loaded.into_session()),
            Err(SessionError::NotFound { .. }) => session.clone(),
            Err(other) => return Err(other),
        };
        self.replace(&merged)?;
        let journal = self.journal_of(id)?;
        files::remove(&journal)
    }

    /// Writes the readable file in one step. The caller holds the lock.
    pub(crate) fn replace(&self, session: &Session) -> Result<PathBuf, SessionError> {
        let path = self.path_of(&session.session_id)?;
        files::replace_json(&path, "the session", session)?;
        Ok(path)
    }

    /// Reads a session: its file and the later records of the journal. A loop that is open although no process writes it was cut
    /// off and comes back as [`Interrupted`](crate::LoopStatus::Interrupted).
    ///
    /// # Errors
    /// When there is none, and when it is damaged, too large, or of a later version. It is whole or an error; of a journal
    /// that breaks off in its last line, that line was never acknowledged and is left out, which
    /// [`LoadedSession::torn_bytes`] says.
    pub fn load_session(&self, id: impl AsRef<str>) -> Result<LoadedSession, SessionError> {
        let mut loaded = self.read(id.as_ref())?;
        if loaded.has_running_loop() && !write_lock::is_held(&self.lock_of(id.as_ref())?) {
            loaded.mark_interrupted();
        }
        Ok(loaded)
    }

    /// Removes a session and its journal.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] when there is none, [`SessionError::Locked`] when a writer has it.
    pub fn delete_session(&self, id: impl AsRef<str>) -> Result<(), SessionError> {
        let id = id.as_ref();
        let (json, journal) = (self.path_of(id)?, self.journal_of(id)?);
        if !json.exists() && !journal.exists() {
            return Err(self.not_found(id));
        }
        let _lock = self.lock(id)?;
        // The journal first: alone, the JSON file is the session as it was last saved; alone, a journal may lack its base.
        files::remove(&journal)?;
        files::remove(&json)
    }

    pub(crate) fn lock(&self, id: &str) -> Result<WriteLock, SessionError> {
        WriteLock::take(self.lock_of(id)?)
    }

    fn not_found(&self, id: &str) -> SessionError {
        SessionError::NotFound { id: id.to_owned(), store: self.dir.display().to_string() }
    }
}

impl BlockingSessionStore for JsonStore {
    fn describe(&self) -> String {
        self.dir.display().to_string()
    }

    fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        Self::save_session(self, session)
    }

    fn load_session(&self, id: &str) -> Result<LoadedSession, SessionError> {
        Self::load_session(self, id)
    }

    fn delete_session(&self, id: &str) -> Result<(), SessionError> {
        Self::delete_session(self, id)
    }

    fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        Self::list_session_ids(self)
    }

    fn find_sessions(&self, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
        find::find(self, query)
    }

    fn write_session(
        &self,
        id: &str,
    ) -> Result<(Box<dyn BlockingSessionWriter>, Option<Session>), SessionError> {
        let (writer, found) = write::JsonWriter::open(self, id)?;
        Ok((Box::new(writer), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        salvage::salvage(self, id)
    }
}
