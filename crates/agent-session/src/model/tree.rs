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
