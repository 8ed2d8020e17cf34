//! Summaries of sessions for lists, and the places of words in them, without loading the sessions.
//!
//! A saved session has its summary in the second line of its file, and a session that is being written in the third line
//! of its journal. A session is loaded only if its files have an earlier form, or if they do not agree: the process that
//! wrote the journal can have been ended between a record and the summary.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use super::super::journal::JournalHead;
use super::super::query::{TextHit, hits, texts_of};
use super::super::summary::Waits;
use super::super::version::check_version;
use super::super::{SessionSummary, files, write_lock};
use super::JsonStore;
use super::entries::Entry;
use super::form2::{self, FileHead, Search};
use super::header::SessionHeader;
use super::read::is_form2;
use crate::error::SessionError;
use crate::model::SESSION_VERSION;

/// The number of attempts to read the summary of a session that is being written at the same time.
const TRIES: usize = 4;

/// The wait between these attempts.
const WAIT: Duration = Duration::from_millis(1);

/// The size of the buffer for a search in a journal.
const BUFFER: usize = 256 << 10;

/// A session in a list.
pub(super) struct Listed {
    pub(super) summary: SessionSummary,
    /// What waits in the session, if its files tell it.
    pub(super) waits: Option<Waits>,
    pub(super) hits: Vec<TextHit>,
}

/// The result of reading a journal without its records.
enum Journal {
    Listed(Box<Listed>),
    /// A save has removed the journal.
    Absent,
    /// The summary is not that of the file as it is. A writer that is between two writes corrects it at once.
    Differs,
    /// The session must be loaded.
    Unknown,
}

/// Returns the summary of a session, and the places of these words.
///
/// # Errors
/// [`SessionError::NotFound`] when the session does not exist any more; also when it cannot be read.
pub(super) fn read(store: &JsonStore, entry: &Entry, asked: &[String]) -> Result<Listed, SessionError> {
    if !entry.has_journal
        && let Some(listed) = of_file(store, entry, asked)?
    {
        return Ok(listed);
    }
    for attempt in 1..=TRIES {
        match of_journal(store, entry, asked)? {
            Journal::Listed(listed) => return Ok(*listed),
            Journal::Absent => match of_file(store, entry, asked)? {
                Some(listed) => return Ok(listed),
                None => break,
            },
            Journal::Unknown => break,
            Journal::Differs if !write_lock::is_held(&store.lock_of(entry.id.as_str())?) => break,
            Journal::Differs if attempt < TRIES => std::thread::sleep(WAIT),
            Journal::Differs => {}
        }
    }
    let session = store.read(entry.id.as_str())?.into_session();
    let hits = hits(texts_of(&session), asked);
    Ok(Listed { summary: SessionSummary::of(&session), waits: None, hits })
}

/// Returns what the file of a session without a journal tells; `None` if the session has one.
fn of_file(store: &JsonStore, entry: &Entry, asked: &[String]) -> Result<Option<Listed>, SessionError> {
    let id = entry.id.as_str();
    let path = store.path_of(id)?;
    let (file, size) = files::open(&path, store.max_file_bytes())?.ok_or_else(|| store.not_found(id))?;
    let mut file = BufReader::new(file);
    if !is_form2(&path, &mut file)? {
        let session = read_form1(&path, file, size, id)?;
        return Ok(Some(Listed { summary: session.summary(), waits: None, hits: session.hits(asked) }));
    }
    let FileHead { summary, waits, needs_journal, .. } = form2::read_head(&path, &mut file, id)?;
    if needs_journal {
        return Ok(None);
    }
    let mut search = Search::new(asked);
    if !asked.is_empty() {
        search.file(&path, file)?;
    }
    Ok(Some(Listed { summary, waits, hits: search.finish() }))
}

fn of_journal(store: &JsonStore, entry: &Entry, asked: &[String]) -> Result<Journal, SessionError> {
    let id = entry.id.as_str();
    let path = store.journal_of(id)?;
    let Some((file, size)) = files::open(&path, store.max_file_bytes())? else { return Ok(Journal::Absent) };
    if size == 0 {
        // Version 1 emptied the journal with a save.
        return Ok(Journal::Absent);
    }
    let mut file = match asked.is_empty() {
        true => BufReader::new(file),
        false => BufReader::with_capacity(BUFFER, file),
    };
    let io = |error| SessionError::io(&path, "read")(error);
    let Some(head) = JournalHead::read(&mut file, id).map_err(io)? else { return Ok(Journal::Differs) };
    if file.get_ref().metadata().map_err(io)?.len() != head.bytes {
        return Ok(Journal::Differs);
    }
    let mut summary = head.summary;
    let mut search = Search::new(asked);
    let saved_path = store.path_of(id)?;
    if let Some((saved, _)) = files::open(&saved_path, store.max_file_bytes())? {
        let mut saved = BufReader::new(saved);
        if !is_form2(&saved_path, &mut saved)? {
            return Ok(Journal::Unknown);
        }
        let saved_head = form2::read_head(&saved_path, &mut saved, id)?;
        if saved_head.journal_records != head.saved_records {
            // The file was saved after the journal began.
            return Ok(Journal::Differs);
        }
        summary.parent_session_id = saved_head.summary.parent_session_id;
        if !asked.is_empty() {
            search.file(&saved_path, saved)?;
        }
    } else if head.saved_records > 0 {
        return Ok(Journal::Differs);
    }
    let records = file.take(head.bytes.saturating_sub(head.begin));
    if !asked.is_empty() && !search.journal(&path, records)? {
        return Ok(Journal::Unknown);
    }
    Ok(Journal::Listed(Box::new(Listed { summary, waits: head.waits, hits: search.finish() })))
}

/// Reads the members of a file of form 1 that a list needs.
fn read_form1(
    path: &Path,
    mut file: BufReader<File>,
    size: usize,
    id: &str,
) -> Result<SessionHeader, SessionError> {
    let mut bytes = Vec::with_capacity(size);
    file.read_to_end(&mut bytes).map_err(SessionError::io(path, "read"))?;
    let session: SessionHeader = serde_json::from_slice(&bytes)
        .map_err(|e| SessionError::corrupt(path, format!("line {}, column {}", e.line(), e.column()), e))?;
    check_version(path, "version", Some(&session.version.into()), SESSION_VERSION)?;
    if session.session_id != *id {
        let text = format!("the file holds session {:?}", session.session_id);
        return Err(SessionError::corrupt(path, "session_id", text));
    }
    Ok(session)
}
