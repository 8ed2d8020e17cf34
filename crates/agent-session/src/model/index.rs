//! The loops of a session by their ids, and the heads that the session has had.

use std::collections::BTreeMap;

use agent_core::{GroupMember, GroupRole, LoopId};

use super::fold::failed;
use super::{LoopRecord, ParallelGroupRecord, Session};
use crate::error::SessionError;

/// Finds loops and the loops that they continue. An operation builds it once, because the public lists of a session can
/// change between two operations.
pub(crate) struct LoopIndex<'a> {
    loops: &'a [LoopRecord],
    by_id: BTreeMap<&'a LoopId, usize>,
    /// The position of the head at each number of loops.
    heads: Vec<Option<usize>>,
    /// The first loop of each group.
    first_of_group: BTreeMap<&'a LoopId, usize>,
}

impl<'a> LoopIndex<'a> {
    pub(crate) fn of(session: &'a Session) -> Self {
        let (mut by_id, mut first_of_group) = (BTreeMap::new(), BTreeMap::new());
        let (mut heads, mut finder) = (vec![None], HeadFinder::default());
        for (at, record) in session.loops.iter().enumerate() {
            by_id.entry(&record.loop_id).or_insert(at);
            if let Some(group) = &record.group {
                first_of_group.entry(&group.group_id).or_insert(at);
            }
            finder.push(HeadMark::of(session, record));
            heads.push(finder.head());
        }
        Self { loops: &session.loops, by_id, heads, first_of_group }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&'a LoopRecord> {
        self.loops.get(at)
    }

    pub(crate) fn position(&self, loop_id: &LoopId) -> Option<usize> {
        self.by_id.get(loop_id).copied()
    }

    /// Returns the position of the loop whose conversation this one begins with. It is an earlier loop, so chains have no
    /// cycles.
    pub(crate) fn before(&self, at: usize) -> Result<Option<usize>, SessionError> {
        let Some(record) = self.get(at) else { return Ok(None) };
        let Some(base) = &record.base else { return Ok(self.presumed_before(at, record)) };
        let Some(after) = &base.after_loop else { return Ok(None) };
        match self.position(after) {
            Some(found) if found < at => Ok(Some(found)),
            _ => {
                Err(failed(&record.loop_id, format!("it begins after loop {after}, which is not before it")))
            }
        }
    }

    /// Returns the loop that a loop without a recorded base continues: the head at that time. Branches continue the head
    /// before their group, and a judge has an empty conversation.
    fn presumed_before(&self, at: usize, record: &LoopRecord) -> Option<usize> {
        let head_at = |loops: usize| self.heads.get(loops).copied().flatten();
        let Some(group) = &record.group else { return head_at(at) };
        match group.role {
            GroupRole::Branch { .. } => {
                head_at(self.first_of_group.get(&group.group_id).map_or(at, |first| at.min(*first)))
            }
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

impl<'a> HeadMark<'a> {
    pub(super) fn of(session: &Session, record: &'a LoopRecord) -> Self {
        Self {
            group: record.group.as_ref(),
            of_branch: record.parallel_group.as_ref(),
            is_copy: record.session_id != session.session_id,
        }
    }
}

/// Returns the position of the head, from all loops in their order.
pub(crate) fn head_of<'a>(loops: &(impl Iterator<Item = HeadMark<'a>> + Clone)) -> Option<usize> {
    let mut finder = HeadFinder::default();
    loops.clone().for_each(|mark| finder.push(mark));
    finder.head()
}

/// When a loop became the head: when it began, or when it was selected after another loop had begun. The greatest one is
/// the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Since {
    /// The position of the last loop at that time.
    last: usize,
    was_selected: bool,
    at: usize,
}

/// Finds the head at each number of loops in one pass over the loops.
#[derive(Default)]
struct HeadFinder<'a> {
    /// The number of loops so far.
    loops: usize,
    latest: Option<Since>,
    /// Selections that were made when the session had more loops, by the number of loops.
    later: BTreeMap<usize, Since>,
    /// The last selected branch of groups whose selection has no recorded time.
    untimed: BTreeMap<&'a LoopId, usize>,
}

impl<'a> HeadFinder<'a> {
    fn push(&mut self, mark: HeadMark<'a>) {
        let at = self.loops;
        self.loops += 1;
        match (mark.group, mark.of_branch) {
            (None, _) => self.found(Since { last: at, was_selected: false, at }),
            (Some(_), _) if mark.is_copy => self.found(Since { last: at, was_selected: false, at }),
            (Some(member), Some(group)) if group.is_selected => match group.selected_after_loops {
                Some(number) => self.select(at, number),
                None => {
                    self.untimed.insert(&member.group_id, at);
                }
            },
            (Some(_), _) => {}
        }
        // Without a recorded time, the selection was made after the last loop of the group.
        if let Some(selected) = mark.group.and_then(|member| self.untimed.get(&member.group_id)) {
            self.found(Since { last: at, was_selected: true, at: *selected });
        }
        if let Some(selected) = self.later.remove(&self.loops) {
            self.found(selected);
        }
    }

    fn select(&mut self, at: usize, after_loops: usize) {
        let Some(last) = after_loops.checked_sub(1) else { return };
        let since = Since { last, was_selected: true, at };
        if after_loops <= self.loops {
            self.found(since);
        } else {
            let latest = self.later.entry(after_loops).or_insert(since);
            *latest = since.max(*latest);
        }
    }

    fn found(&mut self, since: Since) {
        self.latest = self.latest.max(Some(since));
    }

    fn head(&self) -> Option<usize> {
        self.latest.map(|since| since.at)
    }
}
