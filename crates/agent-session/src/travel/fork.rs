//! Builds a new session that continues from a place of another one.

use agent_core::{History, LoopId, SessionId, Timestamp};

use super::path::{begin_of, path_to};
use crate::error::SessionError;
use crate::model::{ForkRef, Point, Session, SessionFormation};

/// Builds the fork of [`Session::forked`].
pub(super) fn fork(
    session: &Session,
    point: &Point,
    id: SessionId,
    now: Timestamp,
) -> Result<Session, SessionError> {
    let path = path_to(session, point)?;
    let mut fork = Session::new(id, session.agent_id.clone(), now);
    fork.formation = SessionFormation::Explicit { timestamp: now };
    fork.scope = session.scope;
    let mut own = 0;
    for step in path {
        let Some(record) = session.loops.get(step.at) else { continue };
        own = step.own;
        // The conversation before a loop does not change the positions of its own messages.
        let begin = begin_of(session, step.at).unwrap_or_else(|_| History::new());
        let mut copy = record.cut_at(begin, step.own)?;
        copy.base = Some(step.base);
        fork.loops.push(copy);
    }
    // Removes a loop without messages if the previous loop ends with the same conversation.
    if own == 0
        && let Some(last) = fork.loops.pop()
    {
        let wanted = session.history_at(point)?;
        if fork.history()? != wanted {
            fork.loops.push(last);
        }
    }
    let there: Vec<LoopId> = fork.loops.iter().map(|r| r.loop_id.clone()).collect();
    for record in &mut fork.loops {
        record.children_loop_ids.retain(|id| there.contains(id));
    }
    fork.forked_from = Some(ForkRef {
        session_id: session.session_id.clone(),
        loop_id: point.loop_id.clone(),
        messages: own,
        timestamp: now,
        files: session.files_at(point)?,
    });
    Ok(fork)
}
