//! Lists a directory of sessions.

use std::collections::BTreeMap;
use std::time::SystemTime;

use agent_core::SessionId;

use super::super::{BlockingSessionStore, id};
use super::JsonStore;
use crate::error::SessionError;
use crate::loaded::LoadedSession;

/// The sessions of an agent, and the sessions that could not be read.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct AgentSessions {
    /// The sessions, newest first.
    pub sessions: Vec<LoadedSession>,
    /// Sessions that could not be read, with the error. Their agent is not known.
    pub unreadable: Vec<(SessionId, SessionError)>,
}

impl AgentSessions {
    /// Adds a session if it belongs to the agent, or its error.
    pub(in crate::store) fn add(
        &mut self,
        agent_id: &str,
        id: SessionId,
        loaded: Result<LoadedSession, SessionError>,
    ) {
        match loaded {
            Ok(session) if session.agent_id == *agent_id => self.sessions.push(session),
            Ok(_) | Err(SessionError::NotFound { .. }) => {}
            Err(error) => self.unreadable.push((id, error)),
        }
    }
}

impl JsonStore {
    /// Returns the ids of all sessions; the session that was written last is the first.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn list_session_ids(&self) -> Result<Vec<SessionId>, SessionError> {
        let mut found: BTreeMap<String, SystemTime> = BTreeMap::new();
        let entries = std::fs::read_dir(self.dir()).map_err(SessionError::io(self.dir(), "listed"))?;
        for entry in entries {
            let entry = entry.map_err(SessionError::io(self.dir(), "listed"))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let Some(id) = name.strip_suffix(".journal.jsonl").or_else(|| name.strip_suffix(".json")) else {
                continue;
            };
            // A file that disappears meanwhile counts as absent.
            let Ok(metadata) = entry.metadata() else { continue };
            // An empty journal is what a killed process of version 1 left before its first record. An empty file is damage.
            let is_left_over = metadata.len() == 0 && name.ends_with(".journal.jsonl");
            if id::check(id).is_err() || !metadata.is_file() || is_left_over {
                continue;
            }
            let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.entry(id.to_owned()).and_modify(|t| *t = (*t).max(time)).or_insert(time);
        }
        let mut ids: Vec<(SystemTime, String)> = found.into_iter().map(|(id, time)| (time, id)).collect();
        ids.sort_by(|a, b| b.cmp(a));
        Ok(ids.into_iter().map(|(_, id)| SessionId::from(id)).collect())
    }

    /// Returns the sessions of an agent, newest first. A file that cannot be read is reported beside the other sessions.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn load_sessions_for_agent(&self, agent_id: impl AsRef<str>) -> Result<AgentSessions, SessionError> {
        BlockingSessionStore::load_sessions_for_agent(self, agent_id.as_ref())
    }
}
