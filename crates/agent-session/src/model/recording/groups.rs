//! Groups of parallel loops in a session that is being recorded.

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
        for (index, loop_id) in start.loop_ids.iter().enumerate() {
            let mut record = LoopRecord::new(
                loop_id.clone(),
                start.session_id.clone(),
                start.agent_id.clone(),
                start.timestamp,
            );
            record.status = LoopStatus::Pending;
            record.parent_loop_id.clone_from(&start.parent_loop_id);
            record.group = member(&start.group_id, index);
            let at = self.begin(record);
            if let Some(record) = self.record_mut(at) {
                record.parallel_group.get_or_insert_with(|| ParallelGroupRecord::of(start.loop_ids.clone()));
            }
        }
    }

    /// Records the selection in every branch. A branch that never began becomes `Aborted`.
    fn close_group(&mut self, end: &ParallelLoopEnd) {
        let loops = self.session.loops.len();
        let mine = |r: &&mut LoopRecord| is_branch_of(r, &end.group_id);
        let all: Vec<LoopId> = self
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
            let group = record.parallel_group.get_or_insert_with(|| ParallelGroupRecord::of(all.clone()));
            group.selected_loop_id.clone_from(&end.selected_loop_id);
            group.selected_config_index = end.selected_config_index;
            group.selected_after_loops = end.selected_loop_id.as_ref().map(|_| loops);
            group.evaluation_usage = end.evaluation_usage;
            group.judge_loop_id.clone_from(&end.judge_loop_id);
            group.reason.clone_from(&end.reason);
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
