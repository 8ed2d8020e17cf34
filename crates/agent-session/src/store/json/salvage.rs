//! Salvages a damaged session of the directory.

use std::io::BufReader;
use std::path::Path;

use super::super::files;
use super::super::journal::{self, Replayed, Saved};
use super::super::salvage::{Loss, Salvaged, closed, from_part};
use super::JsonStore;
use super::form2::{self, FORM};
use super::read::{is_form2, read_form1};
use crate::error::SessionError;
use crate::model::stored::Gaps;

/// Returns the readable part of a session's file and its journal.
pub(super) fn salvage(store: &JsonStore, id: &str) -> Result<Salvaged, SessionError> {
    let mut whole = None;
    let why = match store.load_session(id) {
        Ok(loaded) if loaded.torn_bytes() == 0 => {
            return Ok(Salvaged { session: loaded.into_session(), losses: Vec::new() });
        }
        // Behind what was torn there can be intact records.
        Ok(loaded) => {
            whole = Some(loaded.into_session());
            None
        }
        // A bit of the version's number can be damaged; the line of the session tells it.
        Err(error @ (SessionError::Corrupt { .. } | SessionError::UnsupportedVersion { .. })) => Some(error),
        Err(other) => return Err(other),
    };
    let (json_path, journal_path) = (store.path_of(id)?, store.journal_of(id)?);
    let mut losses = Vec::new();
    let saved = match salvage_file(store, &json_path, id, &mut losses) {
        Err(error @ SessionError::UnsupportedVersion { .. }) => return Err(why.unwrap_or(error)),
        other => other?,
    };
    let none = || SessionError::NotFound { id: id.to_owned(), store: store.dir().display().to_string() };
    if saved.as_ref().is_some_and(|saved| saved.recording.session.session_id != *id) {
        return Err(why.unwrap_or_else(none));
    }
    let recording = match files::open(&journal_path, store.max_file_bytes())? {
        None => saved.map(|saved| saved.recording),
        Some((file, size)) => {
            let paths = journal::Files { journal: &journal_path, saved: &json_path };
            let read = journal::replay(paths, BufReader::new(file), size, saved, id, Gaps::Filled)?;
            let Replayed { recording, broken, .. } = read;
            losses.extend(broken.into_losses(&journal_path));
            recording
        }
    };
    if let Some(session) = whole.filter(|_| losses.is_empty()) {
        return Ok(Salvaged { session, losses });
    }
    let Some(recording) = recording else { return Err(why.unwrap_or_else(none)) };
    // The journal is missing.
    if let Some(why) = why.filter(|_| losses.is_empty()) {
        losses.push(Loss::of(&json_path, &why));
    }
    Ok(Salvaged { session: closed(recording.session), losses })
}

/// Returns the readable part of a session's file.
fn salvage_file(
    store: &JsonStore,
    path: &Path,
    id: &str,
    losses: &mut Vec<Loss>,
) -> Result<Option<Saved>, SessionError> {
    let Some((file, size)) = files::open(path, store.max_file_bytes())? else { return Ok(None) };
    let mut file = BufReader::new(file);
    let bytes = files::read_existing(path, store.max_file_bytes())?;
    // A damaged first line does not make the lines after it those of form 1.
    let has_lines = bytes.split(|b| *b == b'\n').skip(1).take(2).any(super::super::lines::is_sealed);
    if has_lines || is_form2(path, &mut file)? {
        let read = form2::read(path, file, size, id, Gaps::Filled)?;
        if read.form.is_some_and(|form| form != FORM) || (read.form.is_none() && names_later_form(&bytes)) {
            let (found, known) = (read.form.unwrap_or_default(), FORM);
            return Err(SessionError::UnsupportedVersion { path: path.to_owned(), found, known });
        }
        losses.extend(read.broken.into_losses(path));
        let (journal, needs_journal) = (read.journal, read.needs_journal);
        let saved = |recording| Saved { recording, form: 2, digest: None, journal, needs_journal };
        return Ok(read.recording.map(saved));
    }
    match read_form1(path, &bytes) {
        Ok(session) => Ok(Some(Saved::of_form1(session))),
        Err(error @ SessionError::UnsupportedVersion { .. }) => Err(error),
        Err(error) => {
            let part = from_part(&bytes, &path.display().to_string(), losses);
            losses.insert(0, Loss::of(path, &error));
            Ok(part.map(Saved::of_form1))
        }
    }
}

/// Returns whether the first line has the number of a later form.
fn names_later_form(bytes: &[u8]) -> bool {
    let begin = bytes.strip_prefix(b"{\"version\":").and_then(|rest| rest.split(|b| *b == b',').next());
    let number = begin.and_then(|number| std::str::from_utf8(number).ok()?.parse::<u32>().ok());
    number.is_some_and(|number| number > FORM)
}
