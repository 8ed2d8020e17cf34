//! Reads a session from its file and its journal.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::super::files;
use super::super::journal::{self, Replayed, SALVAGE, Saved, SavedJournal};
use super::super::version::check_version;
use super::JsonStore;
use super::form2::{self, FORM};
use crate::error::SessionError;
use crate::loaded::LoadedSession;
use crate::model::Session;
use crate::model::stored::Gaps;

/// The size of the buffer for reading a file.
const BUFFER: usize = 256 << 10;

/// The number of attempts to read files of which a writer removes or begins the journal meanwhile.
const TRIES: usize = 4;

/// The wait between these attempts.
const WAIT: Duration = Duration::from_millis(1);

/// A session as its files have it, and the journal whose records it contains.
pub(super) type ReadFiles = (LoadedSession, Option<SavedJournal>);

impl JsonStore {
    /// Reads the stored session. Open loops are unchanged.
    pub(crate) fn read(&self, id: &str) -> Result<LoadedSession, SessionError> {
        self.read_files(id).map(|(loaded, _)| loaded)
    }

    /// Reads the stored session, and returns the journal whose records it contains, too.
    pub(super) fn read_files(&self, id: &str) -> Result<ReadFiles, SessionError> {
        for attempt in 1..=TRIES {
            if let Some(read) = self.try_read(id)? {
                return Ok(read);
            }
            if attempt < TRIES {
                std::thread::sleep(WAIT);
            }
        }
        let reason = format!(
            "its journal {} is missing, which has later records; put it back, or {SALVAGE}",
            self.journal_of(id)?.display()
        );
        Err(SessionError::corrupt(&self.path_of(id)?, "line 1", reason))
    }

    /// Reads the files once; `None` if the file tells that there is a journal and there is none.
    fn try_read(&self, id: &str) -> Result<Option<ReadFiles>, SessionError> {
        let (json_path, journal_path) = (self.path_of(id)?, self.journal_of(id)?);
        // The journal is opened first. If a writer saves in between, the file contains the journal's records too, and their
        // numbers identify them.
        let journal = files::open(&journal_path, self.max_file_bytes)?;
        let json = files::open(&json_path, self.max_file_bytes)?;
        if json.is_none() && journal.is_none() {
            return Err(self.not_found(id));
        }
        let saved = json.map(|(file, size)| read_saved(&json_path, file, size, id)).transpose()?;
        let Some((file, size)) = journal else {
            let saved = saved.ok_or_else(|| self.not_found(id))?;
            let read = || (LoadedSession::new(saved.recording.session), saved.journal);
            return Ok((!saved.needs_journal).then(read));
        };
        let file = BufReader::with_capacity(BUFFER, file);
        let paths = journal::Files { journal: &journal_path, saved: &json_path };
        let Replayed { recording, torn_bytes, broken, records } =
            journal::replay(paths, file, size, saved, id, Gaps::Refused)?;
        match (recording, broken.into_first()) {
            (_, Some(error)) => Err(error),
            (Some(recording), None) => {
                let loaded = LoadedSession::new(recording.session).with_torn_bytes(torn_bytes);
                Ok(Some((loaded, records)))
            }
            (None, None) => Err(self.not_found(id)),
        }
    }
}

/// Reads the file of a session in either form.
fn read_saved(path: &Path, file: File, size: usize, id: &str) -> Result<Saved, SessionError> {
    let mut file = BufReader::with_capacity(BUFFER, file);
    if is_form2(path, &mut file)? {
        let read = form2::read(path, file, size, id, Gaps::Refused)?;
        let (digest, journal, needs_journal) = (Some(read.digest), read.journal, read.needs_journal);
        return match (read.recording, read.broken.into_first()) {
            (Some(recording), None) => Ok(Saved { recording, form: 2, digest, journal, needs_journal }),
            (_, Some(error)) => Err(error),
            (None, None) => Err(SessionError::corrupt(path, "line 1", "there is no session")),
        };
    }
    let mut bytes = Vec::with_capacity(size);
    file.read_to_end(&mut bytes).map_err(SessionError::io(path, "read"))?;
    let session = read_form1(path, &bytes)?;
    if session.session_id != *id {
        let text = format!("the file holds session {:?}", session.session_id);
        return Err(SessionError::corrupt(path, "session_id", text));
    }
    Ok(Saved::of_form1(session))
}

/// Returns whether a file begins as a file of form 2. Nothing of it is consumed.
pub(super) fn is_form2(path: &Path, file: &mut BufReader<File>) -> Result<bool, SessionError> {
    let first = file.fill_buf().map_err(SessionError::io(path, "read"))?;
    Ok(form2::is_begun_by(first))
}

/// Reads a file of form 1.
pub(in crate::store) fn read_form1(path: &Path, bytes: &[u8]) -> Result<Session, SessionError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|e| SessionError::corrupt(path, format!("line {}, column {}", e.line(), e.column()), e))?;
    if check_version(path, "version", value.get("version"), FORM)? == FORM {
        return Err(SessionError::corrupt(path, "line 1", "this is not the first line of a session"));
    }
    Session::from_value(value).map_err(|e| SessionError::corrupt(path, e.place, e.reason))
}
