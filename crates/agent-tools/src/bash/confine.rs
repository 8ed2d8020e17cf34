//! The restrictions that the `bash` of a sub-agent inherits from that of its caller.

use std::sync::Arc;

use agent_core::AgentTool;
use agent_core::tool::Confinement;

use super::{BashTool, ConfirmFn, DenyPattern};
use crate::Sandbox;

/// The restrictions of a `bash` tool.
struct BashConfinement {
    sandbox: Option<Sandbox>,
    patterns: Vec<DenyPattern>,
    confirm: Option<ConfirmFn>,
}

/// Returns the restrictions of this tool.
pub(super) fn confinement(tool: &BashTool) -> Confinement {
    let patterns = tool.deny_patterns().cloned().collect();
    Arc::new(BashConfinement { sandbox: tool.sandbox.clone(), patterns, confirm: tool.confirm.clone() })
}

/// Returns this tool under the restrictions among `by`: the first sandbox and the first confirmation, unless the tool has
/// its own, and all deny patterns. `None` if there are none.
pub(super) fn confined(tool: &BashTool, by: &[Confinement]) -> Option<Arc<dyn AgentTool>> {
    let above: Vec<&BashConfinement> = by.iter().filter_map(|one| one.downcast_ref()).collect();
    if above.is_empty() {
        return None;
    }
    let mut confined = tool.clone().or_sandbox(above.iter().find_map(|one| one.sandbox.as_ref()));
    for pattern in above.iter().flat_map(|one| &one.patterns) {
        if !confined.deny_patterns().any(|known| known == pattern) {
            confined.more_patterns.push(pattern.clone());
        }
    }
    if confined.confirm.is_none() {
        confined.confirm = above.iter().find_map(|one| one.confirm.clone());
    }
    Some(Arc::new(confined))
}
