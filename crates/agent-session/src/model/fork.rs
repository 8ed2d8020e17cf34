//! A session that goes on from a loop of another one (B-183).

use agent_core::{SessionId, Timestamp};

use super::{ForkRef, LoopRecord, Session, SessionFormation};
use crate::error::SessionError;

impl Session {
    /// A new session that goes on from this loop: it holds the loops whose conversation that one stands on, and says where
    /// it comes from. This session is not changed, and its loops keep their ids. Nothing is saved.
    ///
    /// An open loop is cut off in the fork: what goes on, goes on in the session that it is in.
    ///
    /// # Errors
    /// When there is no such loop, or it begins after one that is not before it.
    ///
    /// ```
    /// use agent_core::Timestamp;
    /// use agent_session::{LoopRecord, Session};
    /// let mut session = Session::new("s-1".into(), "agent".into(), Timestamp(1));
    /// for id in ["s-1.m.1", "s-1.m.2"] {
    ///     session.loops.push(LoopRecord::new(id.into(), "s-1".into(), "agent".into(), Timestamp(2)));
    /// }
    /// let fork = session.fork("s-1.m.1", "s-2".into(), Timestamp(3))?;
    /// assert_eq!((fork.loops.len(), fork.forked_from.unwrap().loop_id.as_str()), (1, "s-1.m.1"));
    /// # Ok::<(), agent_session::SessionError>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "the session takes its id")]
    pub fn fork(&self, loop_id: &str, id: SessionId, now: Timestamp) -> Result<Self, SessionError> {
        let at = self.position(loop_id).ok_or_else(|| SessionError::NoLoop {
            session_id: self.session_id.to_string(),
            loop_id: loop_id.chars().take(80).collect(),
        })?;
        let mut path: Vec<&LoopRecord> = self.loops_below(at)?;
        path.reverse();
        let mut fork = Self::new(id.clone(), self.agent_id.clone(), now);
        fork.formation = SessionFormation::Explicit { timestamp: now };
        fork.scope = self.scope;
        fork.forked_from =
            Some(ForkRef { session_id: self.session_id.clone(), loop_id: loop_id.to_owned().into() });
        fork.loops = path.into_iter().cloned().collect();
        let kept: Vec<_> = fork.loops.iter().map(|r| r.loop_id.clone()).collect();
        for record in &mut fork.loops {
            record.session_id = id.clone();
            record.children_loop_ids.retain(|child| kept.contains(child));
            if record.is_open() {
                record.status = super::LoopStatus::Interrupted;
            }
            record.open_run = None;
        }
        Ok(fork)
    }
}
