//! Rewinds agents and forks their sessions.

use agent_core::compat::SeedVerbs as _;

use agent_core::{AgentHandle, History, SessionId};
use async_trait::async_trait;

use super::Point;
use super::files_on;
use super::path::{Paths, Step};
use crate::error::SessionError;
use crate::files::FileState;
use crate::model::Session;
use crate::store::SessionStore;

/// The result of a rewind or a fork.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Arrival {
    /// The session that the agent continues.
    pub session_id: SessionId,
    /// The point in the original session.
    pub point: Point,
    /// The known states of files at the point, in which the model last saw them. [`FileWatch::differences`] compares them
    /// with the current files.
    ///
    /// [`FileWatch::differences`]: crate::FileWatch::differences
    pub files: FileState,
}

/// Rewinds an agent to a point of a session, or continues from the point in a new session.
#[async_trait]
pub trait TimeTravel {
    /// Sets the agent back to a point of its session. Later loops remain in the session, and the next prompt begins a loop
    /// that continues from the point as a branch. The stored session changes only with that loop.
    ///
    /// # Errors
    /// When there is no such point, when its conversation cannot be rebuilt, and when a run is open or waits for an
    /// answer.
    fn rewind(&self, session: &Session, point: &Point) -> Result<Arrival, SessionError>;

    /// Creates and saves a new session with the path to a point, and moves the agent to it. `session` is only read.
    ///
    /// # Errors
    /// As [`rewind`](Self::rewind), and when the new session cannot be saved. The agent is unchanged then.
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
        let path = arrive(self, session, Some(point))?;
        Ok(Arrival {
            session_id: session.session_id.clone(),
            point: point.clone(),
            files: files_on(session, &path),
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

/// Sets an agent to the conversation at a point, and returns the path to it; `None` is the beginning of a session without
/// loops.
fn arrive(agent: &AgentHandle, session: &Session, point: Option<&Point>) -> Result<Vec<Step>, SessionError> {
    let mut paths = Paths::of(session);
    let (history, path) = match point {
        Some(point) => (paths.history_at(point)?, paths.path_to(point)?),
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
    let (mut groups, open) = session.groups();
    if same {
        for (parent, n) in std::mem::take(&mut snapshot.group_counters) {
            let counter = groups.entry(parent).or_insert(0);
            *counter = n.max(*counter);
        }
    } else {
        snapshot.open_groups = open;
    }
    snapshot.group_counters = groups;
    // The loop of the last remaining message.
    let last = path.iter().rev().filter(|step| step.own > 0).find_map(|step| session.loops.get(step.at));
    snapshot.agent_id = session.agent_id.clone();
    snapshot.session_id = session.session_id.clone();
    snapshot.last_loop_id = last.map(|r| r.loop_id.clone());
    snapshot.loop_counters = counters;
    snapshot.history = history;
    snapshot.system_prompt = agent.state().system_prompt.to_string();
    snapshot.changed = false;
    snapshot.rewound = true;
    agent.load_snapshot(snapshot)?;
    Ok(path)
}
