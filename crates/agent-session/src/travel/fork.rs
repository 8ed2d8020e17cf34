//! A new session that goes on from a place of another one.

use agent_core::{History, LoopId, SessionId, Timestamp};

use crate::error::SessionError;
use crate::model::{ForkRef, Point, Session, SessionFormation};

impl Session {
    /// A new session that holds the way to this point and nothing else. Loops keep their ids and say whose they are by
    /// their session's id; messages are shared. What was cut off in the middle is `Interrupted`; a run that is open is not
    /// taken along, and calls of it without a result get one that says so.
    ///
    /// # Errors
    /// When there is no such point, or the events before it do not make a conversation.
    pub fn forked(
        &self,
        point: &Point,
        id: impl Into<SessionId>,
        now: Timestamp,
    ) -> Result<Self, SessionError> {
        let path = self.path_to(point)?;
        let mut fork = Self::new(id.into(), self.agent_id.clone(), now);
        fork.formation = SessionFormation::Explicit { timestamp: now };
        fork.scope = self.scope;
        let mut own = 0;
        for step in path {
            let Some(record) = self.loops.get(step.at) else { continue };
            own = step.own;
            // What is before a loop does not move the place of its own messages.
            let begin = self.begin_of(step.at).unwrap_or_else(|_| History::new());
            let mut copy = record.cut_at(begin, step.own)?;
            copy.base = Some(step.base);
            fork.loops.push(copy);
        }
        // A loop that nothing is left of, where the one before it ends with the same conversation.
        if own == 0
            && let Some(last) = fork.loops.pop()
        {
            let wanted = self.history_at(point)?;
            if fork.history()? != wanted {
                fork.loops.push(last);
            }
        }
        let there: Vec<LoopId> = fork.loops.iter().map(|r| r.loop_id.clone()).collect();
        for record in &mut fork.loops {
            record.children_loop_ids.retain(|id| there.contains(id));
        }
        fork.forked_from = Some(ForkRef {
            session_id: self.session_id.clone(),
            loop_id: point.loop_id.clone(),
            messages: own,
            timestamp: now,
            files: self.files_at(point)?,
        });
        Ok(fork)
    }
}
