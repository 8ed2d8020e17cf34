//! The tree of loops and the conversation after each of them.

use agent_core::fold::Fold;
use agent_core::{GroupMember, GroupRole, History, LoopId, Usage};

use super::fold::{failed, fold_loop};
use super::{LoopRecord, LoopStatus, ParallelGroupRecord, Session};
use crate::error::SessionError;

impl Session {
    /// Returns the loops that continue no loop of this session.
    pub fn root_loops(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(|r| {
            !r.parent_loop_id.as_ref().is_some_and(|p| *p != r.loop_id && self.get_loop(p.as_str()).is_some())
        })
    }

    /// Returns the loop that the conversation continues from: the one that began last, or a branch that was
    /// selected after that. Branches that were not selected, and judges, are never the head.
    #[must_use]
    pub fn head(&self) -> Option<&LoopRecord> {
        self.head_at(self.loops.len()).and_then(|at| self.loops.get(at))
    }

    /// Returns the position of the head when the session had this many loops.
    pub(crate) fn head_at(&self, loops: usize) -> Option<usize> {
        head_of(&self.loops.iter().take(loops).map(|r| HeadMark {
            group: r.group.as_ref(),
            of_branch: r.parallel_group.as_ref(),
            is_copy: r.session_id != self.session_id,
        }))
    }

    /// Marks running branches as interrupted. The caller has opened the session for writing, so no other process runs them.
    pub(crate) fn interrupt_running_branches(&mut self) {
        for record in self.loops.iter_mut().filter(|r| r.group.is_some()) {
            if record.status == LoopStatus::Running {
                record.status = LoopStatus::Interrupted;
            }
        }
    }

    /// Returns the loops of this session that continue a loop.
    pub fn children_of<'a>(&'a self, loop_id: &'a str) -> impl Iterator<Item = &'a LoopRecord> {
        self.loops.iter().filter(move |r| r.parent_loop_id.as_ref().is_some_and(|p| p == loop_id))
    }

    /// Returns the branches of a loop's group, including the loop; empty if it is not a branch.
    #[must_use]
    pub fn parallel_siblings(&self, loop_id: &str) -> Vec<&LoopRecord> {
        let Some(group) = self.get_loop(loop_id).and_then(|r| r.parallel_group.as_ref()) else {
            return Vec::new();
        };
        group.all_loop_ids.iter().filter_map(|id| self.get_loop(id.as_str())).collect()
    }

    /// Returns the loop with this id.
    #[must_use]
    pub fn get_loop(&self, loop_id: &str) -> Option<&LoopRecord> {
        self.loops.iter().find(|r| r.loop_id == *loop_id)
    }

    /// Returns the loops from a root to this one, inclusive; empty if the loop does not exist. A cycle of parents, which only
    /// a damaged session has, is followed once.
    #[must_use]
    pub fn loop_chain_to(&self, loop_id: &str) -> Vec<&LoopRecord> {
        let mut chain: Vec<&LoopRecord> = Vec::new();
        let mut next = self.get_loop(loop_id);
        while let Some(record) = next {
            if chain.iter().any(|r| r.loop_id == record.loop_id) {
                break;
            }
            chain.push(record);
            next = record.parent_loop_id.as_ref().map(LoopId::as_str).and_then(|p| self.get_loop(p));
        }
        chain.reverse();
        chain
    }

    /// Returns the sum of the tokens of all loops.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.loops.iter().fold(Usage::default(), |sum, r| sum.combine(&r.usage))
    }

    /// Returns the conversation after the [head](Self::head). An open loop is closed:
    /// its calls without a result get one that reports it.
    ///
    /// # Errors
    /// When the events of a loop do not make a conversation.
    pub fn history(&self) -> Result<History, SessionError> {
        match self.head_at(self.loops.len()) {
            None => Ok(History::new()),
            Some(head) => Ok(self.fold_at(head)?.into_closed()),
        }
    }

    /// Returns the conversation after a loop, closed as in [`history`](Self::history); `None` if the loop does not exist.
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

    /// Folds a loop's events over the conversation before it.
    pub(crate) fn fold_at(&self, at: usize) -> Result<Fold, SessionError> {
        let mut chain = self.loops_below(at)?;
        let mut fold = Fold::new(History::new());
        while let Some(record) = chain.pop() {
            fold = fold_loop(record, fold.history())?;
        }
        Ok(fold)
    }

    /// Returns a loop and the loops whose conversation it continues, the last first.
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

    /// Returns the position of the loop whose conversation this one begins with. It is an earlier loop, so chains have no
    /// cycles.
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

    /// Returns the loop that a loop without a recorded base continues: the head at that time. Branches continue the head
    /// before their group, and a judge has an empty conversation.
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

/// The properties of a loop that decide whether the conversation continues from it.
#[derive(Clone, Copy)]
pub(crate) struct HeadMark<'a> {
    pub(crate) group: Option<&'a GroupMember>,
    pub(crate) of_branch: Option<&'a ParallelGroupRecord>,
    /// Whether the loop was copied from another session. A fork contains a single path, so a copied branch is part of it.
    pub(crate) is_copy: bool,
}

/// Returns the position of the head, from all loops in their order.
pub(crate) fn head_of<'a>(loops: &(impl Iterator<Item = HeadMark<'a>> + Clone)) -> Option<usize> {
    let number = loops.clone().count();
    // When a loop became the head: when it began as the n-th loop, or when it was selected after the n-th had begun.
    let since = |(at, mark): (usize, HeadMark<'a>)| match (mark.group, mark.of_branch) {
        (None, _) => Some((at, 0, at)),
        (Some(_), _) if mark.is_copy => Some((at, 0, at)),
        (Some(member), Some(group)) if group.is_selected => {
            let selected = group.selected_after_loops.or_else(|| {
                let of_group = |m: &HeadMark<'_>| m.group.is_some_and(|g| g.group_id == member.group_id);
                let of_group = loops.clone().enumerate().filter(|(_, m)| of_group(m));
                of_group.last().map(|(last, _)| last + 1)
            });
            let last = selected.filter(|n| *n <= number)?.checked_sub(1)?;
            Some((last, 1, at))
        }
        (Some(_), _) => None,
    };
    loops.clone().enumerate().filter_map(since).max().map(|(_, _, at)| at)
}
