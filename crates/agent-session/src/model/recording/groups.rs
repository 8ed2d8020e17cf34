//! Groups of parallel loops in a session that is being recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent_core::{AgentEvent, GroupMember, GroupRole, LoopId, ParallelLoopEnd, ParallelLoopStart};

use super::Recording;
use crate::model::{LoopRecord, LoopStatus, ParallelGroupRecord};

impl Recording {
    /// Applies an event of a group. Ignores other events.
    pub(crate) fn take_group(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::ParallelLoopStart(start) => self.announce(start),
            AgentEvent::ParallelLoopEnd(end) => self.close_group(end),
            _ => {}
        }
    }

    /// Adds all branches to the session before the first of them begins.
    fn announce(&mut self, start: &ParallelLoopStart) {
        self.interrupt_others(start.parent_loop_id.as_ref());
        self.touch(start.timestamp);
        let all: Arc<[LoopId]> = start.loop_ids.iter().cloned().collect();
        let mut children = self.children_without_parent(&all);
        let above = self.ancestors(start.parent_loop_id.as_ref());
        let mut linked = Vec::new();
        for (index, loop_id) in all.iter().enumerate() {
            let at = self.position(loop_id).unwrap_or_else(|| {
                let mut record = LoopRecord::new(
                    loop_id.clone(),
                    start.session_id.clone(),
                    start.agent_id.clone(),
                    start.timestamp,
                );
                record.status = LoopStatus::Pending;
                record.group = member(&start.group_id, index);
                record.children_loop_ids = children.remove(loop_id).unwrap_or_default();
                // A parent that descends from the loop is ignored.
                if !above.contains(loop_id) {
                    record.parent_loop_id.clone_from(&start.parent_loop_id);
                    linked.push(loop_id.clone());
                }
                let at = self.session.loops.len();
                self.by_id.insert(loop_id.clone(), at);
                self.session.loops.push(record);
                at
            });
            if let Some(record) = self.record_mut(at) {
                record.parallel_group.get_or_insert_with(|| ParallelGroupRecord::of(Arc::clone(&all)));
            }
        }
        self.link_children(start.parent_loop_id.as_ref(), linked);
    }

    /// Returns the loops that named one of these loops as their parent before it was announced.
    fn children_without_parent(&self, parents: &[LoopId]) -> BTreeMap<LoopId, Vec<LoopId>> {
        let parents: BTreeSet<&LoopId> = parents.iter().filter(|id| self.position(id).is_none()).collect();
        let mut children: BTreeMap<LoopId, Vec<LoopId>> = BTreeMap::new();
        for record in &self.session.loops {
            if let Some(parent) = record.parent_loop_id.as_ref().filter(|parent| parents.contains(parent)) {
                children.entry(parent.clone()).or_default().push(record.loop_id.clone());
            }
        }
        children
    }

    /// Returns the id of a loop and the ids of the loops above it.
    fn ancestors(&self, of: Option<&LoopId>) -> BTreeSet<LoopId> {
        let mut above = BTreeSet::new();
        let mut next = of;
        while let Some(id) = next.filter(|id| above.insert((*id).clone())) {
            next = self.position(id).and_then(|at| self.record(at)?.parent_loop_id.as_ref());
        }
        above
    }

    /// Adds loops to the children of their parent.
    fn link_children(&mut self, parent: Option<&LoopId>, children: Vec<LoopId>) {
        let parent = parent.and_then(|id| self.position(id)).and_then(|at| self.record_mut(at));
        let Some(parent) = parent else { return };
        let known: BTreeSet<LoopId> = parent.children_loop_ids.iter().cloned().collect();
        parent.children_loop_ids.extend(children.into_iter().filter(|id| !known.contains(id)));
    }

    /// Records the selection in every branch. A branch that never began becomes `Aborted`.
    fn close_group(&mut self, end: &ParallelLoopEnd) {
        let loops = self.session.loops.len();
        let mine = |r: &&mut LoopRecord| is_branch_of(r, &end.group_id);
        let all: Arc<[LoopId]> = self
            .session
            .loops
            .iter()
            .filter(|r| is_branch_of(r, &end.group_id))
            .map(|r| r.loop_id.clone())
            .collect();
        for record in self.session.loops.iter_mut().filter(mine) {
            if record.status == LoopStatus::Pending {
                record.status = LoopStatus::Aborted;
            }
            let is_selected = end.selected_loop_id.as_ref() == Some(&record.loop_id);
            let group =
                record.parallel_group.get_or_insert_with(|| ParallelGroupRecord::of(Arc::clone(&all)));
            group.selected_loop_id.clone_from(&end.selected_loop_id);
            group.selected_config_index = end.selected_config_index;
            group.selected_after_loops = end.selected_loop_id.as_ref().map(|_| loops);
            group.evaluation_usage = end.evaluation_usage;
            group.judge_loop_id.clone_from(&end.judge_loop_id);
            group.reason.clone_from(&end.reason);
            group.ended_at = Some(end.timestamp);
            group.is_selected = is_selected;
        }
        self.session.last_active_at = self.session.last_active_at.max(end.timestamp);
    }
}

fn is_branch_of(record: &LoopRecord, group: &LoopId) -> bool {
    let branch = record.group.as_ref().filter(|g| matches!(g.role, GroupRole::Branch { .. }));
    branch.is_some_and(|g| g.group_id == *group)
}

fn member(group: &LoopId, index: usize) -> Option<GroupMember> {
    Some(GroupMember::new(group.clone(), GroupRole::Branch { index }))
}
