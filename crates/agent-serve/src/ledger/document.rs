//! The content of a ledger, and the session that has it.

use std::collections::BTreeMap;

use agent_core::{LoopId, SessionId, Spending, Timestamp};
use agent_session::{LoopRecord, LoopStatus, Session, SessionError};
use serde::{Deserialize, Serialize};

/// The id of the agent of sessions that are ledgers. No key can own them.
pub(super) const AGENT: &str = "serve-ledger";

/// What the keys have spent, by their names. A key that is not served any more stays, so that it is not new when it returns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Document {
    /// A random id of the process that has written it.
    #[serde(default)]
    pub(super) process: String,
    keys: BTreeMap<String, Entry>,
}

/// What a key has spent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) spent: Spending,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) open: BTreeMap<SessionId, Mark>,
}

/// What was counted of a conversation before its open run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The spending of the conversation's account.
    pub(crate) account: Spending,
    /// The last loop.
    pub(crate) last_loop: Option<LoopId>,
    /// The spending of that loop.
    pub(crate) loop_spent: Spending,
}

impl Document {
    pub(super) fn key(&mut self, name: &str) -> &mut Entry {
        self.keys.entry(name.to_owned()).or_default()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.keys.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    pub(super) fn keys_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.keys.values_mut()
    }

    /// Adds what another document has counted.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, entry) in &other.keys {
            let own = self.key(name);
            own.spent = own.spent.plus(&entry.spent);
        }
    }

    /// Returns what this document has counted beyond another one.
    pub(super) fn beyond(&self, other: &Self) -> Self {
        let mut beyond = Self::default();
        for (name, entry) in &self.keys {
            let before = other.keys.get(name).map(|entry| entry.spent).unwrap_or_default();
            beyond.key(name).spent = entry.spent.minus(&before);
        }
        beyond
    }

    /// Returns the session that has the document.
    pub(super) fn into_session(self, id: &SessionId, now: Timestamp) -> Result<Session, SessionError> {
        let mut session = Session::new(id.clone(), AGENT.into(), now);
        let mut record = LoopRecord::new(format!("{id}.1").into(), id.clone(), AGENT.into(), now);
        record.status = LoopStatus::Completed;
        record.ended_at = Some(now);
        record.metadata = serde_json::to_value(self)
            .map_err(|source| SessionError::Encode { what: "the ledger of the keys", source })?;
        session.loops.push(record);
        Ok(session)
    }

    /// Returns the document of a session. A session that is none is an error, so that nothing is counted anew.
    pub(super) fn of_session(session: &Session) -> Result<Self, SessionError> {
        let damaged = |reason: String| SessionError::store("the ledger of the keys", "read", reason);
        let record = session.loops.first().filter(|_| session.agent_id.as_str() == AGENT);
        let record = record.ok_or_else(|| damaged(format!("{} is another session", session.session_id)))?;
        Self::deserialize(&record.metadata).map_err(|error| damaged(error.to_string()))
    }
}
