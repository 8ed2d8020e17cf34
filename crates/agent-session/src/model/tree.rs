//! Walking the tree of loops (REQ-218).

use agent_core::{LoopId, Usage};

use super::{LoopRecord, Session};

impl Session {
    /// The loops that continue no loop of this session.
    pub fn root_loops(&self) -> impl Iterator<Item = &LoopRecord> {
        self.loops.iter().filter(|r| {
            !r.parent_loop_id.as_ref().is_some_and(|p| *p != r.loop_id && self.get_loop(p.as_str()).is_some())
        })
    }

    /// The loop that the conversation goes on from: the one that began last, or a branch that was selected after that. Branches that
    /// were not selected, and judges, are none.
    #[must_use]
    pub fn head(&self) -> Option<&LoopRecord> {
        self.head_at(self.loops.len()).and_then(|at| self.loops.get(at))
    }

    /// The place of the head as it was when the session had so many loops.
    pub(crate) fn head_at(&self, loops: usize) -> Option<usize> {
        // When a loop came to be the head: by beginning as the n-th, or by being selected after the n-th had begun.
        let since = |(at, record): (usize, &LoopRecord)| match (&record.group, &record.parallel_group) {
            (None, _) => Some((at, 0, at)),
            (Some(member), Some(group)) if group.is_selected => {
                let selected = group.selected_after_loops.or_else(|| {
                    let of_group =
                        |r: &LoopRecord| r.group.as_ref().is_some_and(|g| g.group_id == member.group_id);
                    self.loops.iter().rposition(of_group).map(|last| last + 1)
                });
                let last = selected.filter(|n| *n <= loops)?.checked_sub(1)?;
                Some((last, 1, at))
            }
            (Some(_), _) => None,
        };
        let there = self.loops.iter().enumerate().take(loops);
        there.filter_map(since).max().map(|(_, _, at)| at)
    }

    /// The loops of this session that continue this one.
    pub fn children_of<'a>(&'a self, loop_id: &'a str) -> impl Iterator<Item = &'a LoopRecord> {
        self.loops.iter().filter(move |r| r.parent_loop_id.as_ref().is_some_and(|p| p == loop_id))
    }

    /// The branches of this loop's group, itself among them; none when it is no branch.
    #[must_use]
    pub fn parallel_siblings(&self, loop_id: &str) -> Vec<&LoopRecord> {
        let Some(group) = self.get_loop(loop_id).and_then(|r| r.parallel_group.as_ref()) else {
            return Vec::new();
        };
        group.all_loop_ids.iter().filter_map(|id| self.get_loop(id.as_str())).collect()
    }

    /// The loop of this id.
    #[must_use]
    pub fn get_loop(&self, loop_id: &str) -> Option<&LoopRecord> {
        self.loops.iter().find(|r| r.loop_id == *loop_id)
    }

    /// The loops from a root down to this one. Empty when there is no such loop. A ring, which only a damaged or
    /// hand-made session has, is walked once.
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

    /// The sum of all loops' tokens (REQ-211).
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.loops.iter().fold(Usage::default(), |sum, r| sum.combine(&r.usage))
    }
}
