//! An agent as data, to go on elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::path::Left;
use super::{AgentError, AgentHandle, BasicAgent};
use crate::budget::BudgetSnapshot;
use crate::event::RunEnd;
use crate::history::History;
use crate::identity::{AgentId, LoopId, SessionId};
use crate::run::{Queued, Run};

/// The version that [`AgentSnapshot`] is written with.
pub const SNAPSHOT_VERSION: u32 = 1;

/// An agent without its keys, tools and hooks: those are the caller's, who brings them where it goes on.
///
/// While a run is open its snapshot holds the conversation that was closed before it; a run that waits for an answer is in
/// it whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentSnapshot {
    /// The version of this form.
    pub version: u32,
    /// The agent.
    pub agent_id: AgentId,
    /// The session.
    pub session_id: SessionId,
    /// The last loop that was begun.
    pub last_loop_id: Option<LoopId>,
    /// How many loops each configuration has had.
    pub loop_counters: BTreeMap<String, u64>,
    /// The system prompt.
    pub system_prompt: String,
    /// The conversation.
    pub history: History,
    /// What is queued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<Queued>,
    /// Whether conversation or system prompt were changed after the last loop: what goes on from here is another path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// Whether the conversation was set back to an earlier place: the next prompt continues `last_loop_id` as a branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rewound: bool,
    /// A run that waits for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Box<Run>>,
    /// Whether the agent was recorded by a journal, so that its runs must not continue without one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// What is known of its budget: what was spent stays spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSnapshot>,
}

impl AgentHandle {
    /// Returns the agent as data: the conversation, the ids, the queues, and a run that waits. Without keys, tools and hooks.
    #[must_use]
    pub fn snapshot(&self) -> AgentSnapshot {
        let (agent_id, system_prompt, config) = {
            let settings = self.inner.settings();
            (settings.agent_id.clone(), settings.system_prompt.to_string(), Arc::clone(&settings.config))
        };
        let budget = config.services.budget.as_ref().map(|b| b.snapshot(config.services.environment.now()));
        let queued = self.inner.mailbox.view().take_all();
        let state = self.inner.state();
        let changed = state.left.as_ref().is_some_and(|left| left.differs(&state.history, &system_prompt));
        AgentSnapshot {
            version: SNAPSHOT_VERSION,
            agent_id,
            session_id: state.session_id.clone(),
            last_loop_id: state.last_loop_id.clone(),
            loop_counters: state.loop_counters.clone(),
            system_prompt,
            history: state.history.clone(),
            queued,
            changed,
            rewound: state.rewound,
            suspended: state.suspended.clone(),
            recorded: config.services.journal.is_some() || state.must_record,
            budget: budget.or_else(|| state.spent_before.clone()),
        }
    }
}

impl BasicAgent {
    /// Replaces the agent's conversation, ids and queues by those of a snapshot. Model, provider, tools and hooks stay those
    /// of this agent; so does the system prompt if one is set.
    ///
    /// If the snapshot was taken of a recorded agent, runs need a journal from then on: without one they fail with
    /// [`AgentError::Unrecorded`], unless [`resume_unrecorded`](AgentHandle::resume_unrecorded) is called.
    ///
    /// # Errors
    /// [`AgentError::Busy`] when a run is open here, and [`AgentError::SnapshotVersion`] when a later version wrote it.
    pub fn restore(self, snapshot: AgentSnapshot) -> Result<Self, AgentError> {
        self.load_snapshot(snapshot)?;
        Ok(self)
    }
}

impl AgentHandle {
    /// Replaces the agent's conversation, ids and queues, as [`BasicAgent::restore`].
    ///
    /// # Errors
    /// As [`BasicAgent::restore`].
    pub fn load_snapshot(&self, snapshot: AgentSnapshot) -> Result<(), AgentError> {
        self.check_idle()?;
        if snapshot.version > SNAPSHOT_VERSION {
            return Err(AgentError::SnapshotVersion { found: snapshot.version, known: SNAPSHOT_VERSION });
        }
        let left_prompt: Arc<str> = snapshot.system_prompt.into();
        {
            let mut settings = self.inner.settings();
            settings.agent_id = snapshot.agent_id;
            if settings.system_prompt.is_empty() {
                settings.system_prompt = Arc::clone(&left_prompt);
            }
        }
        self.clear_queues();
        self.inner.prefixes.forget();
        match &snapshot.suspended {
            // A run that waits holds its queue itself; what was queued later came by way of the snapshot's list.
            Some(run) => self.inner.mailbox.reopen(run.queues(), snapshot.queued),
            None => snapshot.queued.into_iter().for_each(|queued| self.inner.mailbox.queue(queued)),
        }
        {
            let mut state = self.inner.state();
            state.must_record = snapshot.recorded;
            state.session_id = snapshot.session_id;
            state.last_loop_id = snapshot.last_loop_id;
            state.loop_counters = snapshot.loop_counters;
            state.spent_before = snapshot.budget;
            state.left = state.last_loop_id.is_some().then(|| Left {
                history: snapshot.history.clone(),
                system_prompt: left_prompt,
                changed: snapshot.changed,
            });
            state.rewound = snapshot.rewound;
            state.history = snapshot.history;
            state.tail.clear();
            if let Some(run) = snapshot.suspended {
                state.finished = Some(RunEnd::Suspended(run.questions()));
                state.tail.extend(run.open_reply().cloned());
                state.suspended = Some(run);
            }
        }
        Ok(())
    }
}
