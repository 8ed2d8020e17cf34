//! The setup of a group of parallel loops, from which the ids of its loops derive.

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::identity::{AgentId, GroupMember, GroupRole, LoopId, SessionId, Timestamp, stable_hash};

/// The setup of a group of parallel loops: plain data that is fixed for its lifetime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GroupSetup {
    /// The id of the group, unique among the loops of the session. Its own events carry it as their loop id, and the
    /// ids of its loops derive from it.
    pub group_id: LoopId,
    /// The session of all its loops.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The loop that the branches continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_loop_id: Option<LoopId>,
    /// The ids of the branches, in the order of their configurations.
    pub loop_ids: Vec<LoopId>,
    /// Whether one branch is selected after all of them have ended. Default: `true`.
    pub selects: bool,
    /// The time of the request, which tags the branches.
    pub requested: Timestamp,
}

impl GroupSetup {
    /// Creates the setup of a group without branches that selects one.
    #[must_use]
    pub fn new(group_id: LoopId, session_id: SessionId, agent_id: AgentId, requested: Timestamp) -> Self {
        let (parent_loop_id, loop_ids) = (None, Vec::new());
        Self { group_id, session_id, agent_id, parent_loop_id, loop_ids, selects: true, requested }
    }

    /// Creates the setup of a group at a position: the group with this `number`, from 0, of those whose branches continue
    /// `parent`. Every process that reaches the position derives the same ids.
    #[must_use]
    pub fn at(
        session_id: SessionId,
        agent_id: AgentId,
        parent: Option<LoopId>,
        number: u64,
        requested: Timestamp,
    ) -> Self {
        let (after, place) = (parent.as_ref().map_or("", LoopId::as_str), number.to_string());
        let tag = stable_hash(&[session_id.as_str(), after, &place]);
        let group_id = LoopId::from(format!("{session_id}.parallel.{tag:016x}-group"));
        Self { parent_loop_id: parent, ..Self::new(group_id, session_id, agent_id, requested) }
    }

    /// Creates a setup with a random id, so that it is unique in the session across processes.
    pub(crate) fn random(session_id: SessionId, agent_id: AgentId, environment: &dyn Environment) -> Self {
        let tag = stable_hash(&[session_id.as_str(), &environment.random_id()]);
        let group_id = LoopId::from(format!("{session_id}.parallel.{tag:016x}-group"));
        Self::new(group_id, session_id, agent_id, environment.now())
    }

    /// Returns the id of a branch whose configuration has this
    /// [segment](crate::AgentLoopConfig::config_segment): `{session}.{segment}.{group}-{n}`, with n from 1.
    #[must_use]
    pub fn branch_id(&self, segment: &str, index: usize) -> LoopId {
        LoopId::from(format!("{}.{segment}.{}-{}", self.session_id, self.tag(), index.saturating_add(1)))
    }

    /// Returns the id of the judge's loop: `{session}.{segment}.{group}-judge`.
    #[must_use]
    pub fn judge_id(&self, segment: &str) -> LoopId {
        LoopId::from(format!("{}.{segment}.{}-judge", self.session_id, self.tag()))
    }

    pub(crate) fn member(&self, role: GroupRole) -> GroupMember {
        GroupMember::new(self.group_id.clone(), role)
    }

    /// Returns the part of the group's id that is unique in the session.
    fn tag(&self) -> &str {
        let id = self.group_id.as_str();
        let last = id.rsplit('.').next().unwrap_or(id);
        last.strip_suffix("-group").unwrap_or(last)
    }
}
