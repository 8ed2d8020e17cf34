//! Laws about what outlives a process: the session store, deferred results, and groups of branches.

use agent_core::AgentEvent;

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

/// A program that performs a prompt again after a kill continues its branches.
pub(super) fn groups(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut open = false;
    for entry in &evidence.log.entries {
        match &entry.what {
            What::Prompted(_) => open = false,
            What::GroupRecorded(event) if matches!(**event, AgentEvent::ParallelLoopStart(_)) => {
                if std::mem::replace(&mut open, true) {
                    return Err("branches that a kill cut off began again".to_owned());
                }
            }
            // A program that does not know of a recorded end begins others.
            What::GroupRecorded(_) if !entry.lost => open = false,
            // The end can be recorded although its record was not acknowledged.
            What::Acted(Action::StoreFails(StoreFault::After)) => open = false,
            _ => {}
        }
    }
    Ok(())
}
