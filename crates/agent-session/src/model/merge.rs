//! Merging two copies of a session.

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
    let mut mine = std::mem::take(&mut given.loops);
    for kept in stored.loops {
        let same = mine.iter().position(|r| r.loop_id == kept.loop_id);
        given.loops.push(match same {
            Some(at) => newer(kept, mine.remove(at)),
            None => kept,
        });
    }
    given.loops.append(&mut mine);
    given
}

fn newer(stored: LoopRecord, given: LoopRecord) -> LoopRecord {
    if stored.events.len() > given.events.len() { stored } else { given }
}
