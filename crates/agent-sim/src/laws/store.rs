//! Laws about what outlives a process: the session store, deferred results, and groups of branches.

use agent_core::AgentEvent;

use super::Evidence;
use crate::log::What;

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
    let mut begun = 0;
    for entry in &evidence.log.entries {
        match &entry.what {
            What::Prompted(_) => begun = 0,
            What::GroupRecorded(event) if matches!(**event, AgentEvent::ParallelLoopStart(_)) => {
                begun += 1;
                if begun > 1 {
                    return Err("branches that a kill cut off began again".to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(())
}
