//! The laws of Looptree, which hold in every simulated run of every agent.

mod conversation;
mod delivery;
mod events;
mod journal;
mod store;
mod time;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use agent_core::LoopId;
use agent_core::event::NumberedEvent;

use crate::disk::Disk;
use crate::log::{Log, What};
use crate::outcome::Violation;
use crate::process::Process;
use crate::script::Action;
use crate::world::KillMark;

/// Everything that is known about a simulated run.
pub(crate) struct Evidence<'a> {
    pub(crate) log: &'a Log,
    pub(crate) disk: &'a Disk,
    pub(crate) kills: &'a [KillMark],
    pub(crate) processes: &'a [Process],
    /// What the agent refused although it had to accept it.
    pub(crate) refused: &'a [String],
    /// What the session store did wrong.
    pub(crate) of_store: &'a [String],
}

/// The check of a law: an error describes what was found.
type Law = fn(&Evidence<'_>) -> Result<(), String>;

const LAWS: &[(&str, Law)] = &[
    // What a store loses violates other laws, too.
    ("a store has what it acknowledged, and nothing else", store::acknowledged),
    ("every start of an event has its end", events::paired),
    ("receivers get the recorded events in order", events::delivered),
    ("a model receives a conversation that its vendor accepts", conversation::valid),
    ("the usage of a run is the sum of its replies", conversation::usage),
    ("results are in the order of their calls", conversation::order),
    ("the journal replays to the same run", journal::replays),
    ("the events fold to the conversation", journal::folds),
    ("no message to a run is lost or delivered twice", delivery::messages),
    ("a completed run leaves no message in its queues", delivery::queues),
    ("a call that must run once is repeated only after an approval", tools::once),
    ("a call that asks runs only as it was allowed", tools::asked),
    ("a denied call does not run", tools::denied),
    ("arguments that do not fit the schema reach no tool", tools::fitting),
    ("an aborted run calls nothing more", tools::aborted),
    ("a run stays within its limits", events::limits),
    ("a deferred call without a result accepts it", store::accepted),
    ("the branches of a prompt begin once", store::groups),
    ("the times of a run do not go back", time::ordered),
    ("only time in which a run works counts for its limit", time::worked),
];

/// Returns the first law that the run violates.
pub(crate) fn check(evidence: &Evidence<'_>) -> Option<Violation> {
    if let Some(problem) = evidence.processes.iter().find_map(|process| process.problem.clone()) {
        return Some(Violation { rule: "law: the agent can continue".to_owned(), message: problem });
    }
    LAWS.iter().find_map(|(name, law)| {
        let message = law(evidence).err()?;
        Some(Violation { rule: format!("law: {name}"), message })
    })
}

impl Evidence<'_> {
    /// Returns whether a call of the store failed, which can end a child loop.
    fn has_store_failure(&self) -> bool {
        let mut entries = self.log.entries.iter();
        entries.any(|entry| matches!(entry.what, What::Acted(Action::StoreFails(_) | Action::Stop)))
    }

    /// Returns the loops that are a branch or the judge of a group.
    fn members(&self) -> BTreeSet<&LoopId> {
        let runs = self.disk.entries.iter().map(|entry| &entry.run);
        runs.filter(|run| run.setup().group.is_some()).map(agent_core::run::Run::loop_id).collect()
    }

    /// Returns the recorded events of each loop with their positions in the log, without those that a crash destroyed.
    fn loops(&self) -> BTreeMap<&LoopId, Vec<(usize, &NumberedEvent)>> {
        let mut loops: BTreeMap<&LoopId, Vec<(usize, &NumberedEvent)>> = BTreeMap::new();
        for (at, entry) in self.log.entries.iter().enumerate().filter(|(_, entry)| !entry.lost) {
            if let What::Recorded(event) = &entry.what {
                loops.entry(event.event.loop_id()).or_default().push((at, event));
            }
        }
        loops
    }
}
