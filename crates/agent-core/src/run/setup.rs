//! What a run is decided by: plain data, fixed for its life.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::LoopPolicy;
use crate::budget::AtLimit;
use crate::event::LoopConfigSnapshot;
use crate::identity::{
    AgentId, ContinuationKind, GroupMember, LoopId, SessionId, SessionOrigin, ToolName,
};
use crate::message::CostConfig;
use crate::model::ApiProtocol;
use crate::route::RouteSetup;
use crate::shared::Shared;

/// What a run is decided by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunSetup {
    /// The agent.
    pub agent_id: AgentId,
    /// The session.
    pub session_id: SessionId,
    /// The loop.
    pub loop_id: LoopId,
    /// The loop that this one continues or was started by.
    pub parent_loop_id: Option<LoopId>,
    /// How it continues; `None` for a first loop.
    pub continuation: Option<ContinuationKind>,
    /// Its place in a group of parallel loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMember>,
    /// Why there is a new session; `None` where there is none, and for an agent's first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_origin: Option<SessionOrigin>,
    /// What `AgentStart` says of the configuration.
    pub config: Arc<LoopConfigSnapshot>,
    /// The protocol, for replies that the run makes itself.
    pub api: Option<ApiProtocol>,
    /// Which gates there are. Without a hook there is no step.
    pub gates: Gates,
    /// Tools whose presence makes a reply's calls run one after the other (B-099).
    pub sequential_tools: BTreeSet<ToolName>,
    /// Who is asked when the model fails, in order; the model itself is route 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteSetup>,
    /// The model's window in tokens, to notice a prompt that was cut in silence (B-161).
    pub context_window: Option<u32>,
    /// The budget that each call is reserved in; `None` for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSetup>,
    /// How the loop behaves.
    #[serde(flatten)]
    pub policy: Shared<LoopPolicy>,
}

/// What a run has to know of its budget.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetSetup {
    /// What it does at a limit.
    pub at_limit: AtLimit,
    /// What the run's own model costs.
    pub prices: CostConfig,
}

impl BudgetSetup {
    /// A budget at whose limits the run does this, for a model with these prices.
    #[must_use]
    pub fn new(at_limit: AtLimit, prices: CostConfig) -> Self {
        Self { at_limit, prices }
    }
}

/// Which gates a run stops at for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// Before `AgentStart`.
    pub before_loop: bool,
    /// After `AgentStart`, for the prompts.
    pub input: bool,
    /// Before each `TurnStart`.
    pub before_turn: bool,
    /// After each executed call, for changes of its result.
    pub after_tool: bool,
}

impl RunSetup {
    /// A setup with the defaults of the requirements, for a loop of this id.
    #[must_use]
    pub fn new(loop_id: impl Into<LoopId>) -> Self {
        let loop_id = loop_id.into();
        let session = loop_id.as_str().split('.').next().unwrap_or_default();
        Self {
            agent_id: AgentId::from("agent"),
            session_id: SessionId::from(session),
            loop_id,
            parent_loop_id: None,
            continuation: None,
            group: None,
            session_origin: None,
            config: Arc::default(),
            api: None,
            gates: Gates::default(),
            sequential_tools: BTreeSet::new(),
            routes: Vec::new(),
            context_window: None,
            budget: None,
            policy: Shared::default(),
        }
    }
}
