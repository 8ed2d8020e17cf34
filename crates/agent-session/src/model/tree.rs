//! The tree of loops and the conversation after each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent_core::fold::Fold;
use agent_core::parallel::GroupSetup;
use agent_core::{GroupMember, History, LoopId, Usage};

use super::{HeadMark, Histories, LoopRecord, LoopStatus, ParallelGroupRecord, Session, head_of};
use crate::error::SessionError;

impl Session {
    /// Returns the position of the head.
    pub(crate) fn head_position(&self) -> Option<usize> {
        self.head_at(self.loops.len())
    }

    /// Returns the position of the head when the session had this many loops.
    pub(crate) fn head_at(&self, loops: usize) -> Option<usize> {
        head_of(&self.loops.iter().take(loops).map(|record| HeadMark::of(self, record)))
    }

    /// Makes the branches of each group share one list of their ids. A reader calls this, because a file repeats the list in
    /// every branch.
    pub(crate) fn share_groups(&mut self) {
        let mut lists: BTreeMap<LoopId, Arc<[LoopId]>> = BTreeMap::new();
        for record in &mut self.loops {
            let (Some(member), Some(group)) = (&record.group, &mut record.parallel_group) else { continue };
            match lists.get(&member.group_id) {
                Some(list) if Arc::ptr_eq(list, &group.all_loop_ids) => {}
                Some(list) if *list == group.all_loop_ids => group.all_loop_ids = Arc::clone(list),
                Some(_) => {}
                None => {
                    lists.insert(member.group_id.clone(), Arc::clone(&group.all_loop_ids));
                }
            }
        }
    }

    /// Returns the loops that continue no loop of this session.
    pub fn root_loops(&self) -> impl Iterator<Item = &LoopRecord> {
        let ids: BTreeSet<&LoopId> = self.loops.iter().map(|r| &r.loop_id).collect();
        self.loops
            .iter()
            .filter(move |r| !r.parent_loop_id.as_ref().is_some_and(|p| *p != r.loop_id && ids.contains(p)))
    }

    /// Returns the loop that the conversation continues from: the one that began last, or a branch that was
    /// selected after that. Branches that were not selected, and judges, are never the head.
    #[must_use]
    pub fn head(&self) -> Option<&LoopRecord> {
        self.head_position().and_then(|at| self.loops.get(at))
    }

    /// Marks running branches as interrupted. The caller has opened the session for writing, so no other process runs them.
    pub(crate) fn interrupt_running_branches(&mut self) {
        for record in self.loops.iter_mut().filter(|r| r.group.is_some()) {
            if record.status == LoopStatus::Running {
                record.status = LoopStatus::Interrupted;
            }
        }
    }

    /// Returns the number of groups that have started after each loop, as an agent counts them, and the groups that were cut
    /// off. The ids of groups that an earlier version recorded do not derive from their place, so they are not continued.
    pub(crate) fn groups(&self) -> (BTreeMap<LoopId, u64>, Vec<GroupSetup>) {
        let mut counters = BTreeMap::<LoopId, u64>::new();
        let (mut seen, mut open) = (BTreeSet::new(), Vec::new());
        for record in self.loops.iter().filter(|record| record.session_id == self.session_id) {
            let (Some(member), Some(group)) = (&record.group, &record.parallel_group) else { continue };
            if !seen.insert(&member.group_id) {
                continue;
            }
            *counters.entry(record.parent_loop_id.clone().unwrap_or_else(|| "".into())).or_default() += 1;
            if group.ended_at.is_none() {
                open.push((record, member, group));
            }
        }
        let setup = |(record, member, group): (&LoopRecord, &GroupMember, &ParallelGroupRecord)| {
            let parent = &record.parent_loop_id;
            let count = counters.get(parent.as_ref().map_or("", LoopId::as_str)).copied().unwrap_or_default();
            let at = |number| {
                let (session, agent) = (self.session_id.clone(), record.agent_id.clone());
                GroupSetup::at(session, agent, parent.clone(), number, record.started_at)
            };
            let mut setup = (0..count).map(at).find(|setup| setup.group_id == member.group_id)?;
            setup.loop_ids = group.all_loop_ids.to_vec();
            Some(setup)
        };
        let open = open.into_iter().filter_map(setup).collect();
        (counters, open)
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
        let loops = self.loops_by_id();
        group.all_loop_ids.iter().filter_map(|id| loops.get(id.as_str()).copied()).collect()
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
        let loops = self.loops_by_id();
        let (mut chain, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next = loops.get(loop_id).copied();
        while let Some(record) = next.filter(|record| seen.insert(&record.loop_id)) {
            chain.push(record);
            next = record.parent_loop_id.as_ref().and_then(|p| loops.get(p.as_str()).copied());
        }
        chain.reverse();
        chain
    }

    fn loops_by_id(&self) -> BTreeMap<&str, &LoopRecord> {
        // Of equal ids, which only a damaged session has, the first counts.
        self.loops.iter().rev().map(|r| (r.loop_id.as_str(), r)).collect()
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
        match self.head_position() {
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
        Histories::of(self).fold_at(at)
    }
}
