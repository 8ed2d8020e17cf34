//! Walking the tree of loops.

use agent_core::{GroupMember, LoopId, Usage};

use super::{LoopRecord, LoopStatus, ParallelGroupRecord, Session};

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
        head_of(&self.loops.iter().take(loops).map(|r| HeadMark {
            group: r.group.as_ref(),
            of_branch: r.parallel_group.as_ref(),
            is_copy: r.session_id != self.session_id,
        }))
    }

    /// Branches that nobody drives any more were cut off: whoever opens the session for writing is its only writer.
    pub(crate) fn nobody_drives_branches(&mut self) {
        for record in self.loops.iter_mut().filter(|r| r.group.is_some()) {
            if record.status == LoopStatus::Running {
                record.status = LoopStatus::Interrupted;
            }
        }
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

    /// The sum of all loops' tokens.
    #[must_use]
    pub fn total_usage(&self) -> Usage {
        self.loops.iter().fold(Usage::default(), |sum, r| sum.combine(&r.usage))
    }
}

/// What says of a loop whether the conversation goes on from it.
#[derive(Clone, Copy)]
pub(crate) struct HeadMark<'a> {
    pub(crate) group: Option<&'a GroupMember>,
    pub(crate) of_branch: Option<&'a ParallelGroupRecord>,
    /// Whether it was taken along from another session. A fork holds one way and nothing beside it, so what was a branch there
    /// is a part of the way here.
    pub(crate) is_copy: bool,
}

/// The place of the head, from all loops in their order.
pub(crate) fn head_of<'a>(loops: &(impl Iterator<Item = HeadMark<'a>> + Clone)) -> Option<usize> {
    let number = loops.clone().count();
    // When a loop came to be the head: by beginning as the n-th, or by being selected after the n-th had begun.
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
