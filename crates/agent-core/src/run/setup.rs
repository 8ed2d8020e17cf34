//! The setup of a run: plain data that is fixed for its lifetime.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy::LoopPolicy;
use crate::budget::AtLimit;
use crate::event::{LoopConfigSnapshot, SpawningCall};
use crate::identity::{AgentId, ContinuationKind, GroupMember, LoopId, SessionId, SessionOrigin, ToolName};
use crate::message::CostConfig;
use crate::model::ApiProtocol;
use crate::route::RouteSetup;
use crate::shared::Shared;

/// The setup of a run. It determines the decisions of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RunSetup {
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The id of the session.
    pub session_id: SessionId,
    /// The id of the loop.
    pub loop_id: LoopId,
    /// The loop that this one continues, or that started it.
    pub parent_loop_id: Option<LoopId>,
    /// The number of delegating tool calls above the loop: 0 for the loops of an agent, and one more than its parent's
    /// for the loop of a sub-agent.
    #[serde(default, skip_serializing_if = "super::is_first")]
    pub depth: u32,
    /// The call to which the loop belongs, for the loop of a sub-agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<Box<SpawningCall>>,
    /// How the loop continues its parent; `None` for a first loop.
    pub continuation: Option<ContinuationKind>,
    /// The membership in a group of parallel loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupMember>,
    /// The reason for which the session was started; `None` for an agent's first session and for later loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_origin: Option<SessionOrigin>,
    /// The configuration that `AgentStart` reports.
    pub config: Arc<LoopConfigSnapshot>,
    /// The protocol, for replies that the run itself produces.
    pub api: Option<ApiProtocol>,
    /// The gates of the run. A gate without a hook causes no step.
    pub gates: Gates,
    /// The tools that make the calls of their reply run one after the other.
    pub sequential_tools: BTreeSet<ToolName>,
    /// The fallback routes, in order. The run's own model is route 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteSetup>,
    /// The context window of the model in tokens, to detect a silently truncated prompt.
    pub context_window: Option<u32>,
    /// The budget in which each call is reserved; `None` for no budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetSetup>,
    /// A text before the ids of the run's questions, so that they are unique in the tree of a run and its children.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub question_prefix: String,
    /// How the loop behaves. Shared with the configuration of the loop.
    #[serde(flatten)]
    pub policy: Shared<LoopPolicy>,
}

/// The budget settings that a run needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BudgetSetup {
    /// What the run does at a limit.
    pub at_limit: AtLimit,
    /// The prices of the run's own model.
    pub prices: CostConfig,
}

impl BudgetSetup {
    /// Creates budget settings for a model with these prices.
    #[must_use]
    pub fn new(at_limit: AtLimit, prices: CostConfig) -> Self {
        Self { at_limit, prices }
    }
}

/// The gates at which a run waits for a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gates {
    /// Whether a gate precedes `AgentStart`.
    pub before_loop: bool,
    /// Whether a gate follows `AgentStart`, for the prompts.
    pub input: bool,
    /// Whether a gate precedes each `TurnStart`.
    pub before_turn: bool,
    /// Whether a hook reviews each executed call.
    pub after_tool: bool,
}

impl RunSetup {
    /// Creates a setup with default values for a loop with this id.
    #[must_use]
    pub fn new(loop_id: impl Into<LoopId>) -> Self {
        let loop_id = loop_id.into();
        let session = loop_id.as_str().split('.').next().unwrap_or_default();
        Self {
            agent_id: AgentId::from("agent"),
            session_id: SessionId::from(session),
            loop_id,
            parent_loop_id: None,
            depth: 0,
            spawned_by: None,
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
            question_prefix: String::new(),
            policy: Shared::default(),
        }
    }
}
