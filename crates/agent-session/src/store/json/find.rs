//! Searches a directory of sessions, one file after the other.

use std::io::BufReader;

use agent_core::SessionId;

use super::super::query::{FoundSession, FoundSessions, SessionQuery, TextHit, hits, texts_of};
use super::super::version::check_version;
use super::super::{SessionSummary, files, write_lock};
use super::JsonStore;
use super::form2;
use super::header::SessionHeader;
use super::read::is_form2;
use crate::error::SessionError;
use crate::model::{LoopStatus, SESSION_VERSION, Session};

pub(super) fn find(store: &JsonStore, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
    let asked = query.words()?;
    let mut found = FoundSessions::default();
    for id in store.list_session_ids()? {
        match look(store, &id, query, &asked) {
            Ok(Some(session)) => found.sessions.push(session),
            Ok(None) | Err(SessionError::NotFound { .. }) => {}
            Err(error) => found.unreadable.push((id, error)),
        }
    }
    Ok(found.page(query))
}

/// Returns the session if it matches. Only one session is in memory at a time.
fn look(
    store: &JsonStore,
    id: &SessionId,
    query: &SessionQuery,
    asked: &[String],
) -> Result<Option<FoundSession>, SessionError> {
    let journal = store.journal_of(id.as_str())?;
    let has_journal = std::fs::metadata(&journal).is_ok_and(|m| m.len() > 0);
    let path = store.path_of(id)?;
    let (mut summary, hits) = if has_journal {
        of_session(&store.read(id.as_str())?.into_session(), asked)
    } else {
        let (file, _) =
            files::open(&path, store.max_file_bytes)?.ok_or_else(|| store.not_found(id.as_str()))?;
        let mut file = BufReader::new(file);
        if !is_form2(&path, &mut file)? {
            let session = read_light(store, id)?;
            (session.summary(), session.hits(asked))
        } else if asked.is_empty() {
            (form2::read_summary(&path, file, id.as_str())?, Vec::new())
        } else {
            form2::search(&path, file, id.as_str(), asked)?
        }
    };
    if summary.status == Some(LoopStatus::Running) && !write_lock::is_held(&store.lock_of(id.as_str())?) {
        summary.status = Some(LoopStatus::Interrupted);
    }
    let found = query.fits(&summary) && (asked.is_empty() || !hits.is_empty());
    Ok(found.then_some(FoundSession { summary, hits }))
}

fn of_session(session: &Session, asked: &[String]) -> (SessionSummary, Vec<TextHit>) {
    (SessionSummary::of(session), hits(texts_of(session), asked))
}

fn read_light(store: &JsonStore, id: &SessionId) -> Result<SessionHeader, SessionError> {
    let path = store.path_of(id)?;
    let bytes = files::read(&path, store.max_file_bytes)?.ok_or_else(|| store.not_found(id.as_str()))?;
    let session: SessionHeader = serde_json::from_slice(&bytes)
        .map_err(|e| SessionError::corrupt(&path, format!("line {}, column {}", e.line(), e.column()), e))?;
    check_version(&path, "version", Some(&session.version.into()), SESSION_VERSION)?;
    if session.session_id != *id {
        let text = format!("the file holds session {:?}", session.session_id);
        return Err(SessionError::corrupt(&path, "session_id", text));
    }
    Ok(session)
}
