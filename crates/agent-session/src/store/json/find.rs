//! Lists and searches a directory of sessions.

use agent_core::SessionId;

use super::super::query::{FoundSession, FoundSessions, SessionQuery};
use super::super::write_lock;
use super::JsonStore;
use super::entries::{self, Entry};
use super::summaries::{self, Listed};
use crate::error::SessionError;
use crate::model::LoopStatus;
use crate::unfinished::{Unfinished, UnfinishedSessions};

pub(super) fn find(store: &JsonStore, query: &SessionQuery) -> Result<FoundSessions, SessionError> {
    let asked = query.words()?;
    let mut found = FoundSessions::default();
    let mut unreadable = Vec::new();
    let looked = entries::each(&entries::of(store)?, |entry| look(store, entry, query, &asked));
    for (entry, result) in looked {
        match result {
            Ok(Some(session)) => found.sessions.push(session),
            Ok(None) | Err(SessionError::NotFound { .. }) => {}
            Err(error) => unreadable.push((entries::written(store, &entry), entry.id, error)),
        }
    }
    unreadable.sort_by(|a, b| (&b.0, &b.1).cmp(&(&a.0, &a.1)));
    found.unreadable = unreadable.into_iter().map(|(_, id, error)| (id, error)).collect();
    Ok(found.page(query))
}

/// Returns the sessions that can have an open run, and those that cannot be read. The one that was written last is the first.
pub(super) fn open_ids(store: &JsonStore) -> Result<Vec<SessionId>, SessionError> {
    let mut found = Vec::new();
    let looked = entries::each(&entries::of(store)?, |entry| summaries::read(store, entry, &[]));
    for (entry, listed) in looked {
        let can_be_open = match listed {
            Err(SessionError::NotFound { .. }) => false,
            Ok(listed) => listed.summary.status.is_some_and(can_be_open),
            Err(_) => true,
        };
        if can_be_open {
            found.push((entries::written(store, &entry), entry.id));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Returns the open runs. A session is loaded if its files do not tell whether it has one.
pub(super) fn unfinished(store: &JsonStore) -> Result<UnfinishedSessions, SessionError> {
    let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
    for (entry, result) in entries::each(&entries::of(store)?, |entry| unfinished_of(store, entry)) {
        match result {
            Ok(None) | Err(SessionError::NotFound { .. }) => {}
            Ok(Some(run)) => runs.push((entries::written(store, &entry), entry.id, run)),
            Err(error) => unreadable.push((entries::written(store, &entry), entry.id, error)),
        }
    }
    runs.sort_by(|a, b| (&b.0, &b.1).cmp(&(&a.0, &a.1)));
    unreadable.sort_by(|a, b| (&b.0, &b.1).cmp(&(&a.0, &a.1)));
    let runs = runs.into_iter().map(|(.., run)| run).collect();
    let unreadable = unreadable.into_iter().map(|(_, id, error)| (id, error)).collect();
    Ok(UnfinishedSessions { runs, unreadable })
}

fn unfinished_of(store: &JsonStore, entry: &Entry) -> Result<Option<Unfinished>, SessionError> {
    match summaries::read(store, entry, &[]) {
        Ok(listed) if !listed.summary.status.is_some_and(can_be_open) => Ok(None),
        Ok(Listed { summary, waits: Some(waits), .. }) => {
            let lock = store.lock_of(entry.id.as_str())?;
            Ok(waits.unfinished(summary, || write_lock::is_held(&lock)))
        }
        Ok(_) | Err(_) => store.load_session(&entry.id)?.unfinished(),
    }
}

/// Returns the sessions that can have a deferred call without a result, and those that cannot be read. The one that was
/// written last is the first.
pub(super) fn deferring_ids(store: &JsonStore) -> Result<Vec<SessionId>, SessionError> {
    let mut found = Vec::new();
    for (entry, listed) in entries::each(&entries::of(store)?, |entry| summaries::read(store, entry, &[])) {
        let can_wait = match listed {
            Err(SessionError::NotFound { .. }) => false,
            Ok(listed) => listed.waits.is_none_or(|waits| waits.has_deferred),
            Err(_) => true,
        };
        if can_wait {
            found.push((entries::written(store, &entry), entry.id));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Returns whether the head of a session with this status can have an open run.
fn can_be_open(status: LoopStatus) -> bool {
    use LoopStatus::{Completed, Failed, Rejected, Stopped};
    !matches!(status, Completed | Rejected | Stopped | Failed)
}

/// Returns the session if it matches.
fn look(
    store: &JsonStore,
    entry: &Entry,
    query: &SessionQuery,
    asked: &[String],
) -> Result<Option<FoundSession>, SessionError> {
    let Listed { mut summary, hits, .. } = summaries::read(store, entry, asked)?;
    if summary.status == Some(LoopStatus::Running) && !write_lock::is_held(&store.lock_of(entry.id.as_str())?)
    {
        summary.status = Some(LoopStatus::Interrupted);
    }
    let found = query.fits(&summary) && (asked.is_empty() || !hits.is_empty());
    Ok(found.then_some(FoundSession { summary, hits }))
}
