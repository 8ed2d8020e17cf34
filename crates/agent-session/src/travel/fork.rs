//! Builds a new session that continues from a place of another one.

use std::collections::BTreeSet;

use agent_core::{LoopId, SessionId, Timestamp};

use super::files_on;
use super::path::Paths;
use crate::error::SessionError;
use crate::model::{ForkRef, Point, Session, SessionFormation};

/// Builds the fork of [`Session::forked`].
pub(super) fn fork(
    session: &Session,
    point: &Point,
    id: SessionId,
    now: Timestamp,
) -> Result<Session, SessionError> {
    let mut paths = Paths::of(session);
    let path = paths.path_to(point)?;
    let files = files_on(session, &path);
    let mut fork = Session::new(id, session.agent_id.clone(), now);
    fork.formation = SessionFormation::Explicit { timestamp: now };
    fork.scope = session.scope;
    let mut own = 0;
    for step in path {
        let Some(record) = session.loops.get(step.at) else { continue };
        own = step.own;
        // The conversation before a loop does not change the positions of its own messages.
        let mut copy = record.cut_at(paths.begin_or_empty(step.at), step.own)?;
        copy.base = Some(step.base);
        fork.loops.push(copy);
    }
    // Removes a loop without messages if the previous loop ends with the same conversation.
    if own == 0
        && let Some(last) = fork.loops.pop()
    {
        let wanted = paths.history_at(point)?;
        if fork.history()? != wanted {
            fork.loops.push(last);
        }
    }
    let there: BTreeSet<LoopId> = fork.loops.iter().map(|r| r.loop_id.clone()).collect();
    for record in &mut fork.loops {
        record.children_loop_ids.retain(|id| there.contains(id));
    }
    fork.forked_from = Some(ForkRef {
        session_id: session.session_id.clone(),
        loop_id: point.loop_id.clone(),
        messages: own,
        timestamp: now,
        files,
    });
    Ok(fork)
}
