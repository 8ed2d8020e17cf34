//! Merging two copies of a session.

use std::collections::{BTreeMap, VecDeque};

use agent_core::LoopId;

use super::{LoopRecord, Session};

/// Returns all loops of both copies; of a loop that both have, the version with more events.
pub(crate) fn merge(stored: Session, mut given: Session) -> Session {
    given.journal_records = given.journal_records.max(stored.journal_records);
    given.last_active_at = given.last_active_at.max(stored.last_active_at);
    given.created_at = given.created_at.min(stored.created_at);
    if given.parent_spawn_ref.is_none() {
        given.parent_spawn_ref = stored.parent_spawn_ref;
    }
    if given.forked_from.is_none() {
        given.forked_from = stored.forked_from;
    }
    let mut mine: Vec<Option<LoopRecord>> = std::mem::take(&mut given.loops).into_iter().map(Some).collect();
    let mut places: BTreeMap<LoopId, VecDeque<usize>> = BTreeMap::new();
    for (at, record) in mine.iter().flatten().enumerate() {
        places.entry(record.loop_id.clone()).or_default().push_back(at);
    }
    for kept in stored.loops {
        let same = places.get_mut(&kept.loop_id).and_then(VecDeque::pop_front);
        let same = same.and_then(|at| mine.get_mut(at)?.take());
        given.loops.push(match same {
            Some(same) => newer(kept, same),
            None => kept,
        });
    }
    given.loops.extend(mine.into_iter().flatten());
    given
}

fn newer(stored: LoopRecord, given: LoopRecord) -> LoopRecord {
    if stored.events.len() > given.events.len() { stored } else { given }
}
