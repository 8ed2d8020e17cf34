//! Snapshots: the state of an agent as data, from which another process can continue.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::path::Left;
use super::{AgentError, AgentHandle, BasicAgent};
use crate::budget::BudgetSnapshot;
use crate::evaluation::GroupSetup;
use crate::event::RunEnd;
use crate::history::History;
use crate::identity::{AgentId, LoopId, SessionId};
use crate::run::{Queued, Run};

/// The version of newly written [`AgentSnapshot`]s.
pub const SNAPSHOT_VERSION: u32 = 1;

/// The state of an agent as data: the conversation, the ids, the queues and a suspended run.
///
/// It contains no keys, tools or hooks; the agent that is restored from it must have them. A snapshot that is taken
/// during a run contains the conversation as it was before the run. A suspended run is included completely.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentSnapshot {
    /// The version of the snapshot's format.
    pub version: u32,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the last loop that was started; `None` before the first.
    pub last_loop_id: Option<LoopId>,
    /// The number of started loops for each configuration segment of loop ids.
    pub loop_counters: BTreeMap<String, u64>,
    /// The number of groups of branches that have started after each loop; the empty id stands for the beginning.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub group_counters: BTreeMap<LoopId, u64>,
    /// The groups of branches that were cut off, which [`AgentHandle::explore_and_adopt`] continues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_groups: Vec<GroupSetup>,
    /// The system prompt of the next run.
    pub system_prompt: String,
    /// The conversation without that of an open run.
    pub history: History,
    /// The queued steering and follow-up messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queued: Vec<Queued>,
    /// Whether the conversation or the system prompt was changed after the last loop. The next run is then a branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
    /// Whether the conversation was set back to an earlier point. The next prompt then continues `last_loop_id` as a
    /// branch.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rewound: bool,
    /// The suspended run, if one waits for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Box<Run>>,
    /// Whether the agent was recorded by a journal, so that its runs must not continue without one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// The state of the agent's budget, so that a restored agent cannot spend the same amounts again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSnapshot>,
}

/// Shows figures and ids, without the conversation.
impl fmt::Debug for AgentSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSnapshot")
            .field("version", &self.version)
            .field("agent_id", &self.agent_id)
            .field("session_id", &self.session_id)
            .field("last_loop_id", &self.last_loop_id)
            .field("system_prompt_bytes", &self.system_prompt.len())
            .field("history", &self.history)
            .field("queued", &self.queued.len())
            .field("suspended", &self.suspended)
            .finish_non_exhaustive()
    }
}

impl AgentHandle {
    /// Returns the state of the agent as data: the conversation, the ids, the queues and a suspended run, without keys,
    /// tools and hooks.
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
            group_counters: state.group_counters.clone(),
            open_groups: state.open_groups.clone(),
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
    /// Replaces the agent's conversation, ids and queues by those of a snapshot. The agent keeps its model, provider,
    /// tools and hooks, and its system prompt if one is set.
    ///
    /// If the snapshot belongs to a recorded agent, later runs need a journal: without one they fail with
    /// [`AgentError::Unrecorded`], unless [`resume_unrecorded`](AgentHandle::resume_unrecorded) is called.
    ///
    /// # Errors
    /// Returns [`AgentError::Busy`] if this agent has an open run, and [`AgentError::SnapshotVersion`] if a later
    /// version of the library wrote the snapshot.
    pub fn restore(self, snapshot: AgentSnapshot) -> Result<Self, AgentError> {
        self.load(snapshot)?;
        Ok(self)
    }
}

impl AgentHandle {
    /// Replaces the agent's conversation, ids and queues, as [`BasicAgent::restore`].
    ///
    /// # Errors
    /// Returns the same errors as [`BasicAgent::restore`].
    pub(crate) fn load(&self, snapshot: AgentSnapshot) -> Result<(), AgentError> {
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
        self.inner.mailbox.discard();
        self.inner.prefixes.forget();
        match &snapshot.suspended {
            // A suspended run holds its own queue; the snapshot's list has the messages that were queued afterwards.
            Some(run) => self.inner.mailbox.reopen(run.queues(), snapshot.queued),
            None => snapshot.queued.into_iter().for_each(|queued| self.inner.mailbox.queue(queued)),
        }
        {
            let mut state = self.inner.state();
            state.must_record = snapshot.recorded;
            state.session_id = snapshot.session_id;
            state.last_loop_id = snapshot.last_loop_id;
            state.loop_counters = snapshot.loop_counters;
            state.group_counters = snapshot.group_counters;
            state.open_groups = snapshot.open_groups;
            state.spent_before = snapshot.budget;
            state.left = state.last_loop_id.is_some().then(|| Left {
                history: snapshot.history.clone(),
                system_prompt: left_prompt,
                changed: snapshot.changed,
            });
            state.rewound = snapshot.rewound;
            state.history = snapshot.history;
            state.tail.clear();
            state.compacted = false;
            state.cut_off = None;
            if let Some(run) = snapshot.suspended {
                state.finished = Some(RunEnd::Suspended(run.questions()));
                state.tail.extend(run.open_reply().cloned());
                state.suspended = Some(run);
            }
        }
        Ok(())
    }
}
