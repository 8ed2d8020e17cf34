//! The path to a point: its loops, and the number of messages of each.

use agent_core::{AgentEvent, Entry, History};

use super::{Point, cut};
use crate::error::SessionError;
use crate::model::{LoopBase, LoopRecord, Session, fold_loop};

/// A loop on the path.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// The position of the loop in the session.
    pub(super) at: usize,
    /// The number of its messages on the path.
    pub(super) own: usize,
    /// The conversation before it, relative to the previous loop on the path.
    pub(super) base: LoopBase,
}

/// A [`LoopBase`] with the position of its loop.
struct Ground {
    after: Option<usize>,
    keep: usize,
    added: Vec<Entry>,
}

/// Returns the path from the beginning to a point. It has no loops of which no message is left.
pub(super) fn path_to(session: &Session, point: &Point) -> Result<Vec<Step>, SessionError> {
    let at = session.place(point)?;
    let own = session.loops.get(at).map_or(0, |r| cut::settled(r, point.messages));
    let mut steps = Vec::new();
    let mut next = Some((at, own));
    while let Some((at, own)) = next {
        let ground = ground(session, at)?;
        next = step_of(session, &ground)?;
        let after_loop = ground.after.and_then(|p| session.loops.get(p)).map(|r| r.loop_id.clone());
        steps.push(Step { at, own, base: LoopBase { after_loop, keep: ground.keep, added: ground.added } });
    }
    steps.reverse();
    Ok(steps)
}

/// Returns the previous loop on the path to a loop, and the number of its messages on the path.
pub(super) fn step_before(session: &Session, at: usize) -> Result<Option<(usize, usize)>, SessionError> {
    step_of(session, &ground(session, at)?)
}

fn step_of(session: &Session, ground: &Ground) -> Result<Option<(usize, usize)>, SessionError> {
    ground.after.map(|before| Ok((before, own_of(session, before, ground.keep)?))).transpose()
}

/// Returns the conversation before a loop.
pub(super) fn begin_of(session: &Session, at: usize) -> Result<History, SessionError> {
    let Some(record) = session.loops.get(at) else { return Ok(History::new()) };
    // The fold of a loop without events is the conversation before it.
    let mut bare = LoopRecord::new(
        record.loop_id.clone(),
        record.session_id.clone(),
        record.agent_id.clone(),
        record.started_at,
    );
    bare.base.clone_from(&record.base);
    let before = match session.before(at, record)? {
        Some(before) => session.fold_at(before)?.history().clone(),
        None => History::new(),
    };
    Ok(fold_loop(&bare, &before)?.history().clone())
}

/// Returns the base of a loop relative to the last loop that contributed messages. Loops whose own messages were all
/// removed by a rewind are skipped.
fn ground(session: &Session, at: usize) -> Result<Ground, SessionError> {
    let mut ground = stored_ground(session, at)?;
    while let Some(before) = ground.after {
        let Some(record) = session.loops.get(before) else { break };
        if was_compacted(record) || ground.keep > begin_len(session, before)? {
            break;
        }
        let below = stored_ground(session, before)?;
        let missing = ground.keep.saturating_sub(below.keep);
        let mut added: Vec<Entry> = below.added.into_iter().take(missing).collect();
        added.append(&mut ground.added);
        let keep = if below.after.is_some() { ground.keep.min(below.keep) } else { 0 };
        ground = Ground { after: below.after, keep, added };
    }
    Ok(ground)
}

fn stored_ground(session: &Session, at: usize) -> Result<Ground, SessionError> {
    let Some(record) = session.loops.get(at) else {
        return Ok(Ground { after: None, keep: 0, added: Vec::new() });
    };
    let after = session.before(at, record)?;
    Ok(match (&record.base, after) {
        (Some(base), after) => Ground { after, keep: base.keep, added: base.added.clone() },
        (None, None) => Ground { after, keep: 0, added: Vec::new() },
        (None, Some(before)) => {
            let keep = session.fold_at(before)?.history().len();
            Ground { after, keep, added: Vec::new() }
        }
    })
}

fn begin_len(session: &Session, at: usize) -> Result<usize, SessionError> {
    let ground = stored_ground(session, at)?;
    Ok(ground.keep + ground.added.len())
}

/// Returns the number of a loop's own messages among the first `keep` messages of the conversation after it.
fn own_of(session: &Session, at: usize, keep: usize) -> Result<usize, SessionError> {
    let Some(record) = session.loops.get(at) else { return Ok(0) };
    if was_compacted(record) {
        return Ok(record.messages.len());
    }
    let own = keep.saturating_sub(begin_len(session, at)?).min(record.messages.len());
    Ok(cut::settled(record, own))
}

/// Returns whether a compaction changed the positions of the loop's own messages.
fn was_compacted(record: &LoopRecord) -> bool {
    record.events.iter().any(|e| matches!(e.known(), Some(AgentEvent::CompactionEnded(_))))
}
