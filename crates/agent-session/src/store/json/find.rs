//! Looking for sessions in a directory: one file after the other.

use agent_core::{LoopId, SessionId};

use super::super::query::{FoundSession, FoundSessions, HITS, SessionQuery, TextHit};
use super::super::version::check_version_number;
use super::super::{SessionSummary, files, words, write_lock};
use super::JsonStore;
use super::light::SessionHeader;
use crate::error::SessionError;
use crate::model::{LoopStatus, Session};

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
    query.sort(&mut found.sessions);
    found.total = found.sessions.len();
    found.sessions = found.sessions.into_iter().skip(query.offset).take(query.limit()).collect();
    Ok(found)
}

/// The session, if it fits. Only one is in memory at a time.
fn look(
    store: &JsonStore,
    id: &SessionId,
    query: &SessionQuery,
    asked: &[String],
) -> Result<Option<FoundSession>, SessionError> {
    let journal = store.journal_of(id.as_str())?;
    let has_journal = std::fs::metadata(&journal).is_ok_and(|m| m.len() > 0);
    let (mut summary, hits): (SessionSummary, Box<dyn FnOnce() -> Vec<TextHit>>) = if has_journal {
        let session = store.read(id.as_str())?.into_session();
        let asked = asked.to_vec();
        (SessionSummary::of(&session), Box::new(move || hits(&session, &asked)))
    } else {
        let session = read_light(store, id)?;
        let asked = asked.to_vec();
        (session.summary(), Box::new(move || session.hits(&asked)))
    };
    if summary.status == Some(LoopStatus::Running) && !write_lock::is_held(&store.lock_of(id.as_str())?) {
        summary.status = Some(LoopStatus::Interrupted);
    }
    if !query.fits(&summary) {
        return Ok(None);
    }
    let hits = if asked.is_empty() { Vec::new() } else { hits() };
    if !asked.is_empty() && hits.is_empty() {
        return Ok(None);
    }
    Ok(Some(FoundSession { summary, hits }))
}

fn read_light(store: &JsonStore, id: &SessionId) -> Result<SessionHeader, SessionError> {
    let path = store.path_of(id)?;
    let bytes = files::read(&path, store.max_file_bytes)?.ok_or_else(|| store.not_found(id.as_str()))?;
    let session: SessionHeader = serde_json::from_slice(&bytes)
        .map_err(|e| SessionError::corrupt(&path, format!("line {}, column {}", e.line(), e.column()), e))?;
    check_version_number(&path, session.version)?;
    if session.session_id != *id {
        let text = format!("the file holds session {:?}", session.session_id);
        return Err(SessionError::corrupt(&path, "session_id", text));
    }
    Ok(session)
}

/// Where the words stand in a session, the first few.
fn hits(session: &Session, asked: &[String]) -> Vec<TextHit> {
    let mut hits = Vec::new();
    for record in &session.loops {
        for (place, message) in record.messages.iter().enumerate() {
            let text = message.text();
            if let Some(at) = words::find(&text, asked) {
                let loop_id: LoopId = record.loop_id.clone();
                hits.push(TextHit { loop_id, message: place, snippet: words::snippet(&text, at) });
                if hits.len() == HITS {
                    return hits;
                }
            }
        }
    }
    hits
}
