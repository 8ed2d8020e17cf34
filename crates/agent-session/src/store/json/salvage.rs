//! Salvages a damaged session of the directory.

use super::super::files;
use super::super::journal::{self, Replayed};
use super::super::salvage::{Loss, Salvaged, closed, from_part};
use super::JsonStore;
use crate::error::SessionError;
use crate::model::recording::Recording;

/// Returns the readable part of a session's file and its journal.
pub(super) fn salvage(store: &JsonStore, id: &str) -> Result<Salvaged, SessionError> {
    let why = match store.load_session(id) {
        Ok(loaded) => return Ok(Salvaged { session: loaded.into_session(), losses: Vec::new() }),
        Err(error @ SessionError::Corrupt { .. }) => error,
        Err(other) => return Err(other),
    };
    let (json_path, journal_path) = (store.path_of(id)?, store.journal_of(id)?);
    let mut losses = Vec::new();
    let mut base = None;
    if let Some(bytes) = files::read(&json_path, store.max_file_bytes())? {
        match super::read_json(&json_path, &bytes) {
            Ok(session) => base = Some(session),
            Err(SessionError::UnsupportedVersion { .. }) => return Err(why),
            Err(error) => {
                base = from_part(&bytes, &json_path.display().to_string(), &mut losses);
                losses.insert(0, Loss::new(json_path.display().to_string(), error.to_string()));
            }
        }
    }
    if base.as_ref().is_some_and(|s| s.session_id != *id) {
        return Err(why);
    }
    let mut recording = base.map(Recording::new);
    if let Some(bytes) = files::read(&journal_path, store.max_file_bytes())? {
        let Replayed { recording: read, broken, .. } = journal::replay(&journal_path, &bytes, recording, id);
        recording = read;
        if let Some(error) = broken {
            losses.push(Loss::new(journal_path.display().to_string(), error.to_string()));
        }
    }
    match recording {
        Some(recording) => Ok(Salvaged { session: closed(recording.session), losses }),
        None => Err(why),
    }
}
