//! Agents that go back, and on elsewhere.

use agent_core::compat::SeedVerbs as _;
use std::path::Path;

use agent_core::{AgentHandle, History, SessionId};
use async_trait::async_trait;

use super::Point;
use super::path::path_to;
use crate::error::SessionError;
use crate::files::{FileDifference, FileState};
use crate::model::Session;
use crate::store::SessionStore;

/// Where an agent has come to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Arrival {
    /// The session that the agent continues.
    pub session_id: SessionId,
    /// The place, in the session that it was taken from.
    pub point: Point,
    /// What was known of the files there.
    pub files: FileState,
}

impl Arrival {
    /// What is other in the files now than it was at the place: the model believes them to be as they were. Empty where
    /// nothing was noted. Reads the files.
    #[must_use]
    pub fn differences(&self, root: impl AsRef<Path>) -> Vec<FileDifference> {
        self.files.differences(root)
    }
}

/// Going back to a place of a session, and going on from it in another one.
#[async_trait]
pub trait TimeTravel {
    /// Sets the agent back to this place. The session stays the same: what came after the place is kept in it, and the
    /// next prompt begins a loop that is noted as a branch from here. The session's file changes with that loop.
    ///
    /// # Errors
    /// When there is no such place, when its conversation cannot be rebuilt, and when a run is open or waits for an
    /// answer.
    fn rewind(&self, session: &Session, point: &Point) -> Result<Arrival, SessionError>;

    /// Makes a new session of the way to this place, saves it, and lets the agent go on in it. `session` is only read.
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind), and when the new session cannot be saved. The agent stays where it was then.
    async fn fork(
        &self,
        store: &dyn SessionStore,
        session: &Session,
        point: &Point,
    ) -> Result<Arrival, SessionError>;
}

#[async_trait]
impl TimeTravel for AgentHandle {
    fn rewind(&self, session: &Session, point: &Point) -> Result<Arrival, SessionError> {
        arrive(self, session, Some(point))?;
        Ok(Arrival {
            session_id: session.session_id.clone(),
            point: point.clone(),
            files: session.files_at(point)?,
        })
    }

    async fn fork(
        &self,
        store: &dyn SessionStore,
        session: &Session,
        point: &Point,
    ) -> Result<Arrival, SessionError> {
        if self.is_streaming() {
            return Err(agent_core::AgentError::Busy.into());
        }
        let environment = self.config().services.environment;
        let fork = session.forked(point, environment.random_id(), environment.now())?;
        store.save_session(&fork).await?;
        if let Err(error) = arrive(self, &fork, fork.end_point().as_ref()) {
            // The agent does not continue the new session, so it is removed again.
            let _ = store.delete_session(fork.session_id.as_str()).await;
            return Err(error);
        }
        let files = fork.forked_from.map(|f| f.files).unwrap_or_default();
        Ok(Arrival { session_id: fork.session_id, point: point.clone(), files })
    }
}

/// Takes over the conversation at a place; none for the beginning of a session without loops.
fn arrive(agent: &AgentHandle, session: &Session, point: Option<&Point>) -> Result<(), SessionError> {
    let (history, path) = match point {
        Some(point) => (session.history_at(point)?, path_to(session, point)?),
        None => (History::new(), Vec::new()),
    };
    let mut snapshot = agent.snapshot();
    let same = snapshot.session_id == session.session_id;
    let mut counters = session.loop_counters();
    if same {
        for (config, n) in std::mem::take(&mut snapshot.loop_counters) {
            let counter = counters.entry(config).or_insert(0);
            *counter = n.max(*counter);
        }
    }
    // The loop that gave the last message that is left; none where nothing is.
    let last = path.iter().rev().filter(|step| step.own > 0).find_map(|step| session.loops.get(step.at));
    snapshot.agent_id = session.agent_id.clone();
    snapshot.session_id = session.session_id.clone();
    snapshot.last_loop_id = last.map(|r| r.loop_id.clone());
    snapshot.loop_counters = counters;
    snapshot.history = history;
    snapshot.system_prompt = agent.state().system_prompt.to_string();
    snapshot.changed = false;
    snapshot.rewound = true;
    Ok(agent.load_snapshot(snapshot)?)
}
