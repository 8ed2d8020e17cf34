//! A directory of sessions: one JSON file for each, and a journal beside it while the session is being written.
//!
//! | file | content |
//! |---|---|
//! | `{session_id}.json` | the session; a save writes and flushes a temporary file and renames it |
//! | `{session_id}.journal.jsonl` | the records since the last save, one line for each input of a run; removed by a save |
//! | `{session_id}.lock` | the lock of the writer; removed when it is unlocked |
//!
//! On Unix, the journal is a second name of the lock's file, so that an open session has one descriptor. Each journal is a
//! new file, which replaces that of the lock, so that a reader that has opened a journal reads all of it also after a save.
//!
//! Reading needs no lock: it combines the JSON file and the journal as they are at that moment.

mod entries;
mod find;
pub(super) mod form2;
mod header;
mod journal_file;
mod listing;
mod read;
mod salvage;
mod summaries;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::SessionId;

pub use listing::AgentSessions;

use super::journal::SavedJournal;
use super::write_lock::{self, WriteLock};
use super::{BlockingSessionStore, BlockingSessionWriter, FoundSessions, Salvaged, SessionQuery, files, id};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::unfinished::UnfinishedSessions;

/// The default limit for the size of a file that is read, in bytes: 512 MiB.
pub const MAX_FILE_BYTES: u64 = 512 << 20;

/// A store of sessions in a directory. Clones are handles to the same directory.
#[derive(Debug, Clone)]
pub struct JsonStore {
    dir: Arc<Path>,
    max_file_bytes: u64,
}

impl JsonStore {
    /// Opens a store in a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// When the directory cannot be created.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, SessionError> {
        let dir: PathBuf = dir.into();
        files::create_private(&dir)?;
        Ok(Self { dir: dir.into(), max_file_bytes: MAX_FILE_BYTES })
    }

    /// Sets the maximum size in bytes of a file that is read; the default is [`MAX_FILE_BYTES`]. A writer refuses records with
    /// which file and journal together would be larger, and new loops when less than an eighth is left
    /// ([`SessionError::Full`]), so that every session that was written can be read.
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

    /// Returns the path of a session's readable file, whether or not it exists.
    ///
    /// # Errors
    /// [`SessionError::InvalidId`] when the id cannot be the name of a file.
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

    /// Saves a session. Loops that exist only in the store are retained, so that saving an older copy cannot erase a newer
    /// loop; of a loop that both have, the version with more events is stored.
    ///
    /// # Errors
    /// [`SessionError::Locked`] when another process or recorder is writing the session; also when the stored version is
    /// damaged or the session cannot be written. The stored version is unchanged then.
    pub fn save_session(&self, session: &Session) -> Result<(), SessionError> {
        let id = session.session_id.as_str();
        let _lock = self.lock(id)?;
        let (merged, saved) = match self.read_files(id) {
            Ok((loaded, saved)) => (session.clone().merged_into(loaded.into_session()), saved),
            Err(SessionError::NotFound { .. }) => (session.clone(), None),
            Err(other) => return Err(other),
        };
        let journal = self.journal_of(id)?;
        files::remove_empty(&journal)?;
        self.replace(&merged, saved)?;
        files::remove(&journal)
    }

    /// Replaces the readable file atomically, and returns the digest of its lines. `journal` is the one whose records the
    /// session contains. The caller holds the lock.
    fn replace(&self, session: &Session, journal: Option<SavedJournal>) -> Result<u32, SessionError> {
        let path = self.path_of(&session.session_id)?;
        files::replace_by(&path, |file| form2::write(session, journal, &path, file))
    }

    /// Loads a session from its file and the later records of its journal. A loop that is open although no process writes it
    /// was cut off and is returned as [`Interrupted`](crate::LoopStatus::Interrupted).
    ///
    /// An unfinished last line of the journal was never acknowledged and is dropped; [`LoadedSession::torn_bytes`] returns
    /// its size.
    ///
    /// # Errors
    /// When the session does not exist, is damaged or too large, or has a later version. A session is never loaded in part.
    pub fn load_session(&self, id: impl AsRef<str>) -> Result<LoadedSession, SessionError> {
        let mut loaded = self.read(id.as_ref())?;
        if loaded.has_running_loop() && !write_lock::is_held(&self.lock_of(id.as_ref())?) {
            loaded.mark_interrupted();
        }
        Ok(loaded)
    }

    /// Deletes a session and its journal.
    ///
    /// # Errors
    /// [`SessionError::NotFound`] when it does not exist, [`SessionError::Locked`] when a writer has it.
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

    fn list_open_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        find::open_ids(self)
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
        let (writer, found) = write::JsonWriter::open(self, id)?;
        Ok((Box::new(writer), found))
    }

    fn salvage_session(&self, id: &str) -> Result<Salvaged, SessionError> {
        salvage::salvage(self, id)
    }
}
