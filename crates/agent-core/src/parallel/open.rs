//! The record of a group that is being driven: its events go to the journals of its branches before they are delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{Group, GroupInput, GroupPlan, ParallelLoopResult};
use crate::drive::{AgentLoopConfig, EventSender};
use crate::evaluation::ParallelLoopOutcome;
use crate::event::{AgentEvent, ParallelLoopEnd};
use crate::journal::{GroupEntry, Journal, JournalError};

/// How far the record of a group has come, as its owner sees it.
#[derive(Debug, Default)]
pub(crate) struct GroupRecord(AtomicU8);

impl GroupRecord {
    const STARTED: u8 = 1;
    const ENDED: u8 = 2;

    /// The record of a group that is resumed has its start.
    pub(super) fn of(plan: &GroupPlan) -> Self {
        Self(AtomicU8::new(if plan.is_resumed { Self::STARTED } else { 0 }))
    }

    /// Whether the start is recorded and the end is not.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::STARTED
    }

    /// Whether the group has started.
    pub(crate) fn has_started(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn set(&self, stage: u8) {
        self.0.store(stage, Ordering::Relaxed);
    }
}

/// A group that is being driven. Dropping it before its end emits an end without a selection.
pub(super) struct Open<'a> {
    pub(super) group: Group,
    plan: &'a GroupPlan,
    journals: Vec<Arc<dyn Journal>>,
    record: &'a GroupRecord,
    tx: &'a EventSender,
    /// The events that have not been delivered because they are not recorded yet.
    events: Vec<AgentEvent>,
}

impl<'a> Open<'a> {
    /// Starts the group, and records and delivers its start. Without a record, nothing has started. A group that is resumed
    /// has a record of its start.
    pub(super) async fn start(
        plan: &'a GroupPlan,
        record: &'a GroupRecord,
        tx: &'a EventSender,
    ) -> Result<Self, JournalError> {
        let (mut events, journals) = (Vec::new(), plan.journals());
        let group = match plan.is_resumed {
            true => Group::resume(plan.setup.clone()),
            false => Group::start(plan.setup.clone(), plan.now(), &mut events),
        };
        write(plan, &journals, &events).await?;
        // A group that is in no journal cannot be resumed.
        record.set(if journals.is_empty() { GroupRecord::ENDED } else { GroupRecord::STARTED });
        events.drain(..).for_each(|event| tx.send_numbered(group.numbered(event)));
        Ok(Self { group, plan, journals, record, tx, events })
    }

    /// Delivers that the group ends here for its listeners, and records nothing: it is resumed later.
    pub(super) fn leave(&mut self, reason: String) {
        let left = self.group.apply(self.plan.now(), GroupInput::Interrupted { reason }, &mut self.events);
        debug_assert!(left.is_ok(), "an open group accepts its interruption");
        self.deliver();
    }

    /// Applies an input, records its events, and delivers them even if they could not be recorded.
    pub(super) async fn apply(&mut self, input: GroupInput) -> Result<(), JournalError> {
        let now = self.plan.now();
        if let Err(misplaced) = self.group.apply(now, input, &mut self.events) {
            // The built-in driver applies what the group waits for; anything else is an error of the library.
            return Err(JournalError::new(misplaced.to_string(), Some(Box::new(misplaced))));
        }
        let recorded = write(self.plan, &self.journals, &self.events).await;
        if recorded.is_ok() && self.group.ended().is_some() {
            self.record.set(GroupRecord::ENDED);
        }
        self.deliver();
        recorded
    }

    fn deliver(&mut self) {
        self.events.drain(..).for_each(|event| self.tx.send_numbered(self.group.numbered(event)));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.group.ended().is_none() {
            self.leave("the task that ran the branches was dropped".to_owned());
        }
        self.deliver();
    }
}

async fn write(
    plan: &GroupPlan,
    journals: &[Arc<dyn Journal>],
    events: &[AgentEvent],
) -> Result<(), JournalError> {
    for event in events {
        for journal in journals {
            journal.append_group(GroupEntry::new(plan.now(), event)).await?;
        }
    }
    Ok(())
}

/// Returns the end to journal when an agent adopts a branch of a group that ended without a selection.
pub(crate) fn selection(
    outcome: &ParallelLoopOutcome,
    index: Option<usize>,
    config: &AgentLoopConfig,
) -> Option<ParallelLoopEnd> {
    let context = &outcome.context;
    let (group, session) = (context.group.as_ref()?.group_id.clone(), context.session_id.clone()?);
    Some(ParallelLoopEnd {
        selected_loop_id: Some(outcome.loop_id.clone()),
        selected_config_index: index,
        ..ParallelLoopEnd::new(group, session, config.services.environment.now())
    })
}

/// Returns the end to journal when the selected branch was not adopted.
pub(crate) fn not_adopted(result: &ParallelLoopResult, config: &AgentLoopConfig) -> Option<ParallelLoopEnd> {
    let (group, session) = (result.group_id.clone(), result.selected.context.session_id.clone()?);
    let selected = &result.selected.loop_id;
    Some(ParallelLoopEnd {
        evaluation_usage: result.usage.evaluation,
        judge_loop_id: result.judge_loop_id.clone(),
        reason: Some(format!("branch {selected} was selected and not adopted: the conversation had changed")),
        ..ParallelLoopEnd::new(group, session, config.services.environment.now())
    })
}
