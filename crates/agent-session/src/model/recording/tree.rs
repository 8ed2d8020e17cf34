//! The tree of loops in a session that is being recorded.

use std::collections::BTreeSet;

use agent_core::LoopId;

use super::Recording;
use crate::model::{LoopRecord, LoopStatus};

impl Recording {
    /// Links a loop with its parent in both directions. A parent that descends from the loop is ignored.
    pub(super) fn link(&mut self, at: usize, parent: LoopId) {
        let Some(loop_id) = self.record(at).map(|r| r.loop_id.clone()) else { return };
        let is_parent = self.record(at).is_some_and(|r| !r.children_loop_ids.is_empty());
        if parent == loop_id || (is_parent && self.chain_of(&parent).any(|r| r.loop_id == loop_id)) {
            tracing::debug!(%loop_id, %parent, "a loop that descends from another cannot be its parent");
            return;
        }
        match self.position(&parent) {
            None => self.orphans.entry(parent.clone()).or_default().push(loop_id),
            Some(of) => {
                if let Some(of) = self.record_mut(of)
                    && !of.children_loop_ids.contains(&loop_id)
                {
                    of.children_loop_ids.push(loop_id);
                }
            }
        }
        if let Some(record) = self.record_mut(at) {
            record.parent_loop_id = Some(parent);
        }
    }

    /// Returns a loop, its parent and so on. A cycle, which only a damaged file has, is followed once.
    fn chain_of<'a>(&'a self, loop_id: &LoopId) -> impl Iterator<Item = &'a LoopRecord> {
        let get = |id: &LoopId| self.record(self.position(id)?);
        let chain = std::iter::successors(get(loop_id), move |r| get(r.parent_loop_id.as_ref()?));
        chain.take(self.session.loops.len())
    }

    /// Marks open loops as interrupted, or as aborted if they waited. Excludes the parents, and the loops of groups, which
    /// run concurrently and can still be answered.
    pub(super) fn interrupt_others(&mut self, parent: Option<&LoopId>) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|at| self.record(*at).is_some_and(LoopRecord::is_open));
        let others = open.iter().filter(|at| self.record(**at).is_some_and(|r| r.group.is_none()));
        let mut others: BTreeSet<usize> = others.copied().collect();
        if let Some(parent) = parent.filter(|_| !others.is_empty()) {
            for record in self.chain_of(parent) {
                if let Some(at) = self.position(&record.loop_id) {
                    others.remove(&at);
                }
            }
        }
        self.open = open;
        for at in others {
            let Some(record) = self.session.loops.get_mut(at) else { continue };
            match record.status {
                LoopStatus::Running => record.status = LoopStatus::Interrupted,
                LoopStatus::Suspended => record.status = LoopStatus::Aborted,
                _ => {}
            }
        }
    }
}
