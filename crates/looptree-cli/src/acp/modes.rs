//! The modes of a session: which calls need a permission.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{SessionMode, SessionModeId, SessionModeState};

use super::invalid;
use crate::approval::Approvals;
use crate::args::Approve;

/// A mode: its id, its name and its description.
struct Mode {
    id: &'static str,
    name: &'static str,
    description: &'static str,
    /// The calls that need a permission; `None` where calls that change something are denied.
    approve: Option<Approve>,
}

const MODES: [Mode; 4] = [
    Mode {
        id: "ask",
        name: "Ask",
        description: "Edits, commands and tools of MCP servers need a permission",
        approve: Some(Approve::Ask),
    },
    Mode {
        id: "commands",
        name: "Ask before commands",
        description: "Commands and tools of MCP servers need a permission, edits do not",
        approve: Some(Approve::Commands),
    },
    Mode { id: "yes", name: "Yes", description: "No call needs a permission", approve: Some(Approve::None) },
    Mode {
        id: "plan-only",
        name: "Plan only",
        description: "Tools that change something are denied",
        approve: None,
    },
];

/// Returns the modes, and the one of this policy.
pub(super) fn state(approvals: &Approvals) -> SessionModeState {
    let now = if approvals.plan_only() { None } else { Some(approvals.approve()) };
    let current = MODES.iter().find(|mode| mode.approve == now).map_or("ask", |mode| mode.id);
    let all = MODES
        .iter()
        .map(|mode| SessionMode::new(mode.id, mode.name).description(mode.description.to_owned()));
    SessionModeState::new(current, all.collect())
}

/// Selects a mode.
pub(super) fn set(approvals: &Approvals, id: &SessionModeId) -> Result<(), Error> {
    let Some(mode) = MODES.iter().find(|mode| mode.id == &*id.0) else {
        let known: Vec<_> = MODES.iter().map(|mode| mode.id).collect();
        return Err(invalid(format!("there is no mode {:?}; known are {}", id.0, known.join(", "))));
    };
    approvals.set_plan_only(mode.approve.is_none());
    if let Some(approve) = mode.approve {
        approvals.set_approve(approve);
    }
    Ok(())
}
