//! From a session back to the conversation.

use agent_core::fold::Fold;
use agent_core::{GroupRole, History, LoopId, Splice};

use super::{LoopBase, LoopRecord, Session};
use crate::error::{BoxError, SessionError};

impl Session {
    /// The conversation after the [head](Self::head). A loop that is open is closed: calls without a result get one that says so.
    ///
    /// # Errors
    /// When the events of a loop do not make a conversation.
    pub fn history(&self) -> Result<History, SessionError> {
        match self.head_at(self.loops.len()) {
            None => Ok(History::new()),
            Some(head) => Ok(self.fold_at(head)?.into_closed()),
        }
    }

    /// The conversation after this loop, closed as in [`history`](Self::history); `None` when there is no such loop.
    ///
    /// # Errors
    /// As [`history`](Self::history).
    pub fn history_after(&self, loop_id: &str) -> Result<Option<History>, SessionError> {
        match self.position(loop_id) {
            None => Ok(None),
            Some(at) => Ok(Some(self.fold_at(at)?.into_closed())),
        }
    }

    pub(crate) fn position(&self, loop_id: &str) -> Option<usize> {
        self.loops.iter().position(|r| r.loop_id == *loop_id)
    }

    /// The fold of a loop's events over what was before it.
    pub(crate) fn fold_at(&self, at: usize) -> Result<Fold, SessionError> {
        let mut chain = self.loops_below(at)?;
        let mut fold = Fold::new(History::new());
        while let Some(record) = chain.pop() {
            fold = fold_loop(record, fold.history())?;
        }
        Ok(fold)
    }

    /// A loop, and those whose conversation it stands on: the last first.
    fn loops_below(&self, at: usize) -> Result<Vec<&LoopRecord>, SessionError> {
        let mut chain = Vec::new();
        let mut next = Some(at);
        while let Some(at) = next {
            let Some(record) = self.loops.get(at) else { break };
            chain.push(record);
            next = self.before(at, record)?;
        }
        Ok(chain)
    }

    /// The place of the loop whose conversation this one begins with. It is an earlier one, so that no chain is a ring.
    pub(crate) fn before(&self, at: usize, record: &LoopRecord) -> Result<Option<usize>, SessionError> {
        let Some(base) = &record.base else { return Ok(self.presumed_before(at, record)) };
        let Some(after) = &base.after_loop else { return Ok(None) };
        match self.position(after.as_str()) {
            Some(found) if found < at => Ok(Some(found)),
            _ => {
                Err(failed(&record.loop_id, format!("it begins after loop {after}, which is not before it")))
            }
        }
    }
}

impl Session {
    /// Where nobody said what a loop begins with: what the conversation was then. Branches begin with what it was before their
    /// group, a judge with nothing.
    fn presumed_before(&self, at: usize, record: &LoopRecord) -> Option<usize> {
        let Some(group) = &record.group else { return self.head_at(at) };
        let first =
            self.loops.iter().position(|r| r.group.as_ref().is_some_and(|g| g.group_id == group.group_id));
        match group.role {
            GroupRole::Branch { .. } => self.head_at(first.unwrap_or(at).min(at)),
            _ => None,
        }
    }
}

/// The fold of a loop over the conversation after the one before it.
pub(crate) fn fold_loop(record: &LoopRecord, before: &History) -> Result<Fold, SessionError> {
    let base = match &record.base {
        Some(base) => begin(base, before).map_err(|e| failed(&record.loop_id, e))?,
        None => before.clone(),
    };
    let mut fold = Fold::new(base);
    for event in record.events.iter().filter_map(|e| e.known()) {
        fold.push(event).map_err(|e| failed(&record.loop_id, e))?;
    }
    Ok(fold)
}

fn begin(base: &LoopBase, before: &History) -> Result<History, BoxError> {
    if base.keep == before.len() && base.added.is_empty() {
        return Ok(before.clone());
    }
    let splice = Splice { from: base.keep, to: before.len(), messages: base.added.clone() };
    Ok(before.spliced(&[splice])?)
}

fn failed(loop_id: &LoopId, source: impl Into<BoxError>) -> SessionError {
    SessionError::Fold { loop_id: loop_id.clone(), source: source.into() }
}
