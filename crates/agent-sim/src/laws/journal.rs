//! Laws about the records of a run.

use std::collections::BTreeMap;

use agent_core::fold::Fold;
use agent_core::history::History;
use agent_core::run::Run;
use agent_core::{GroupRole, LoopId};

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
    let mut conversation = Conversation::default();
    let mut folds: BTreeMap<&LoopId, Fold> = BTreeMap::new();
    for entry in &evidence.disk.entries {
        let id = entry.run.loop_id();
        let fold = folds.entry(id).or_insert_with(|| Fold::new(conversation.before(&entry.run)));
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
        conversation.note(&entry.run);
    }
    Ok(())
}

/// The conversation of the agent, and those of its branches, each of which it can have adopted.
#[derive(Default)]
struct Conversation {
    agent: History,
    branches: Vec<History>,
}

impl Conversation {
    /// Returns the conversation with which a loop begins.
    fn before(&self, run: &Run) -> History {
        let role = run.setup().group.as_ref().map(|group| group.role);
        if run.setup().depth > 0 || role == Some(GroupRole::Judge) {
            return History::new();
        }
        let known =
            self.branches.iter().chain([&self.agent]).filter(|known| begins_with(run.history(), known));
        known.max_by_key(|known| known.len()).unwrap_or(&self.agent).clone()
    }

    fn note(&mut self, run: &Run) {
        let history = run.history().clone();
        if is_root(run) && run.ended().is_some() {
            (self.agent, self.branches) = (history, Vec::new());
        } else if run.setup().depth == 0 && (run.ended().is_some() || run.is_suspended()) {
            self.branches.push(history);
        }
    }
}

/// Compares the messages, because another process shares none of them.
fn begins_with(history: &History, earlier: &History) -> bool {
    history.len() >= earlier.len() && history.entries().zip(earlier.entries()).all(|(a, b)| a == b)
}
