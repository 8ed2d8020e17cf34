//! A group of parallel loops: its ids, its journals, and its events.

use std::sync::Arc;

use crate::drive::EventSender;
use crate::environment::Environment;
use crate::event::{AgentEvent, ParallelLoopEnd, ParallelLoopStart};
use crate::identity::{AgentId, GroupMember, GroupRole, LoopId, SessionId, stable_hash};
use crate::journal::{GroupEntry, Journal, JournalError};

/// The reason in the end of a group whose future was dropped.
const DROPPED: &str = "the task that ran the branches was dropped";

/// A group of parallel loops.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParallelGroup {
    /// The id of the group, unique among the loops of the session. Its own events carry it as their loop id.
    pub group_id: LoopId,
    /// The session of all its loops.
    pub session_id: SessionId,
    /// The id of the agent.
    pub agent_id: AgentId,
    /// The loop that the branches continue.
    pub parent_loop_id: Option<LoopId>,
    /// The ids of the branches.
    pub loop_ids: Vec<LoopId>,
    /// The environment of the group.
    pub environment: Arc<dyn Environment>,
    /// The journals of the branches. The judge is recorded in the first one.
    pub(crate) journals: Vec<Arc<dyn Journal>>,
    tag: String,
}

impl ParallelGroup {
    /// Creates a group without branches. Its id is random, so that it is unique in the session across processes.
    pub(crate) fn new(
        session_id: SessionId,
        agent_id: AgentId,
        parent_loop_id: Option<LoopId>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let tag = format!("{:016x}", stable_hash(&[session_id.as_str(), &environment.random_id()]));
        Self {
            group_id: LoopId::from(format!("{session_id}.parallel.{tag}-group")),
            session_id,
            agent_id,
            parent_loop_id,
            loop_ids: Vec::new(),
            environment,
            journals: Vec::new(),
            tag,
        }
    }

    /// Returns the id of a branch: `{session}.{config}.{group}-{n}`, with n from 1.
    pub(crate) fn branch_id(&self, segment: &str, index: usize) -> LoopId {
        LoopId::from(format!("{}.{segment}.{}-{}", self.session_id, self.tag, index.saturating_add(1)))
    }

    /// Returns the id of the judge's loop.
    pub(crate) fn judge_id(&self, segment: &str) -> LoopId {
        LoopId::from(format!("{}.{segment}.{}-judge", self.session_id, self.tag))
    }

    pub(crate) fn member(&self, role: GroupRole) -> GroupMember {
        GroupMember::new(self.group_id.clone(), role)
    }

    /// Adds a journal unless the group already has it.
    pub(crate) fn write_to(&mut self, journal: Option<&Arc<dyn Journal>>) {
        if let Some(journal) = journal
            && !self.journals.iter().any(|known| Arc::ptr_eq(known, journal))
        {
            self.journals.push(Arc::clone(journal));
        }
    }

    async fn record(&self, event: &AgentEvent) -> Result<(), JournalError> {
        for journal in &self.journals {
            journal.append_group(GroupEntry::new(self.environment.now(), event)).await?;
        }
        Ok(())
    }

    /// Journals and emits the start of the group. From now on the group has an end.
    pub(crate) async fn announce<'a>(&'a self, tx: &'a EventSender) -> Result<Announced<'a>, JournalError> {
        let event = AgentEvent::ParallelLoopStart(Box::new(ParallelLoopStart {
            group_id: self.group_id.clone(),
            session_id: self.session_id.clone(),
            agent_id: self.agent_id.clone(),
            parent_loop_id: self.parent_loop_id.clone(),
            loop_ids: self.loop_ids.clone(),
            timestamp: self.environment.now(),
        }));
        self.record(&event).await?;
        tx.send(event);
        Ok(Announced { group: self, tx, open: true })
    }

    pub(crate) fn end(&self, reason: Option<String>) -> ParallelLoopEnd {
        let (group, session) = (self.group_id.clone(), self.session_id.clone());
        ParallelLoopEnd { reason, ..ParallelLoopEnd::new(group, session, self.environment.now()) }
    }
}

/// A group whose end has not been emitted. Dropping it emits an end without a selection.
pub(crate) struct Announced<'a> {
    group: &'a ParallelGroup,
    tx: &'a EventSender,
    open: bool,
}

impl Announced<'_> {
    /// Journals and emits the end of the group.
    pub(crate) async fn close(mut self, end: ParallelLoopEnd) -> Result<(), JournalError> {
        let event = AgentEvent::ParallelLoopEnd(Box::new(end));
        let recorded = self.group.record(&event).await;
        self.open = false;
        self.tx.send(event);
        recorded
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if self.open {
            let end = self.group.end(Some(DROPPED.to_owned()));
            self.tx.send(AgentEvent::ParallelLoopEnd(Box::new(end)));
        }
    }
}
