//! Laws about the records of a run.

use std::collections::BTreeMap;

use agent_core::LoopId;
use agent_core::fold::Fold;
use agent_core::history::History;
use agent_core::run::Run;

use super::Evidence;
use crate::disk::{is_root, replay};
use crate::log::What;

/// The inputs of the journal, applied to the run at its start, give the run after each entry.
pub(super) fn replays(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut runs: BTreeMap<&LoopId, Run> = BTreeMap::new();
    for entry in &evidence.disk.entries {
        let id = entry.run.loop_id();
        let Some(run) = runs.get_mut(id) else {
            runs.insert(id, entry.run.clone());
            continue;
        };
        replay(run, entry).map_err(|error| format!("the inputs of {id} cannot be replayed: {error}"))?;
        if *run != entry.run {
            return Err(format!("after {} events, {id} is replayed to another run", entry.run.event_count()));
        }
    }
    Ok(())
}

/// The recorded events give the conversation that the run has.
pub(super) fn folds(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut before = History::new();
    let mut folds: BTreeMap<&LoopId, Fold> = BTreeMap::new();
    for entry in &evidence.disk.entries {
        let id = entry.run.loop_id();
        let begins = if is_root(&entry.run) { before.clone() } else { History::new() };
        let fold = folds.entry(id).or_insert_with(|| Fold::new(begins));
        for entry in evidence.log.entries.get(entry.events.clone()).unwrap_or_default() {
            if let What::Recorded(event) = &entry.what {
                fold.push(&event.event)
                    .map_err(|error| format!("the events of {id} do not fold: {error}"))?;
            }
        }
        if fold.history() != entry.run.history() {
            return Err(format!(
                "after {} events, {id} folds to another conversation",
                entry.run.event_count()
            ));
        }
        if is_root(&entry.run) && entry.run.ended().is_some() {
            before = entry.run.history().clone();
        }
    }
    Ok(())
}
