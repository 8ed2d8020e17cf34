//! Reads a session from its file and its journal.

use std::path::Path;

use serde_json::Value;

use super::super::files;
use super::super::journal::{self, Replayed};
use super::super::version::check_version;
use super::JsonStore;
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::model::recording::Recording;

impl JsonStore {
    /// Reads the stored session. Open loops are unchanged.
    pub(crate) fn read(&self, id: &str) -> Result<LoadedSession, SessionError> {
        let (json_path, journal_path) = (self.path_of(id)?, self.journal_of(id)?);
        // The journal is read first. If a writer saves in between, the file contains the journal's records too, and their
        // numbers identify them.
        let journal = files::read(&journal_path, self.max_file_bytes)?;
        let json = files::read(&json_path, self.max_file_bytes)?;
        if json.is_none() && journal.is_none() {
            return Err(self.not_found(id));
        }
        let from_file = json.map(|bytes| read_json(&json_path, &bytes)).transpose()?;
        if let Some(session) = &from_file
            && session.session_id != *id
        {
            let text = format!("the file holds session {:?}", session.session_id);
            return Err(SessionError::corrupt(&json_path, "session_id", text));
        }
        let Some(bytes) = journal else {
            return from_file.map(LoadedSession::new).ok_or_else(|| self.not_found(id));
        };
        let base = from_file.map(Recording::new);
        let Replayed { recording, torn_bytes, broken } = journal::replay(&journal_path, &bytes, base, id);
        if let Some(error) = broken {
            return Err(error);
        }
        match recording {
            Some(recording) => Ok(LoadedSession::new(recording.session).with_torn_bytes(torn_bytes)),
            // The journal has no finished line, so nothing was acknowledged.
            None => Err(self.not_found(id)),
        }
    }
}

pub(in crate::store) fn read_json(path: &Path, bytes: &[u8]) -> Result<Session, SessionError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|e| SessionError::corrupt(path, format!("line {}, column {}", e.line(), e.column()), e))?;
    check_version(path, "version", value.get("version"))?;
    Session::from_value(value).map_err(|e| SessionError::corrupt(path, e.place, e.reason))
}
