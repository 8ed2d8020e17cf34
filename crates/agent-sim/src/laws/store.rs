//! Laws about what outlives a process: the session store, deferred results, and groups of branches.

use agent_core::{AgentEvent, LoopId};

use super::Evidence;
use crate::log::What;
use crate::script::{Action, StoreFault};

/// The store has every acknowledged record, and no record that it did not acknowledge or that could be there.
pub(super) fn acknowledged(evidence: &Evidence<'_>) -> Result<(), String> {
    evidence.of_store.first().map_or(Ok(()), |problem| Err(problem.clone()))
}

/// The result of a deferred call is accepted at every moment, until it has one.
pub(super) fn accepted(evidence: &Evidence<'_>) -> Result<(), String> {
    evidence.refused.first().map_or(Ok(()), |refused| Err(refused.clone()))
}

/// A program that performs a prompt again after a kill continues its branches. Others begin after a recorded end, which can be
/// one that was not acknowledged: the conversation continued then, or a reply of the store was lost.
pub(super) fn groups(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut open: Option<&Option<LoopId>> = None;
    for entry in &evidence.log.entries {
        match &entry.what {
            What::Prompted(_) | What::Acted(Action::StoreFails(StoreFault::After)) => open = None,
            What::GroupRecorded(event) => match &**event {
                AgentEvent::ParallelLoopStart(start) if open == Some(&start.parent_loop_id) => {
                    return Err("branches that a kill cut off began again".to_owned());
                }
                AgentEvent::ParallelLoopStart(start) => open = Some(&start.parent_loop_id),
                _ if !entry.lost => open = None,
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}
