//! The summary of a session that is being written.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_core::Usage;

use super::super::SessionRecord;
use super::waits::{LiveWaits, Waits};
use super::{SessionSummary, status_of, status_of_session};
use crate::model::{LoopStatus, Session};

/// The summary of a session after its last record. A record updates it without a look at the earlier messages, which the
/// session may not have any more.
#[derive(Debug)]
pub(in crate::store) struct LiveSummary {
    summary: SessionSummary,
    status: LiveStatus,
    /// The tokens of each loop that the summary includes.
    used: Vec<Usage>,
    waits: LiveWaits,
}

impl LiveSummary {
    pub(in crate::store) fn of(session: &Session) -> Self {
        Self {
            summary: SessionSummary::of(session),
            status: LiveStatus::of(session),
            used: session.loops.iter().map(|record| record.usage).collect(),
            waits: LiveWaits::of(session),
        }
    }

    /// Updates the summary by a record, and returns it with what waits in the session.
    pub(in crate::store) fn update(
        &mut self,
        record: &SessionRecord<'_>,
    ) -> (&SessionSummary, Option<&Arc<Waits>>) {
        self.waits.update(record);
        self.update_summary(record);
        (&self.summary, self.waits.current())
    }

    fn update_summary(&mut self, record: &SessionRecord<'_>) {
        let (summary, session) = (&mut self.summary, record.session);
        if summary.agent_id != session.agent_id {
            summary.agent_id = session.agent_id.clone();
        }
        summary.created_at = session.created_at;
        summary.last_active_at = session.last_active_at;
        let parent = session.parent_spawn_ref.as_ref().map(|parent| &parent.parent_session_id);
        if summary.parent_session_id.as_ref() != parent {
            summary.parent_session_id = parent.cloned();
        }
        summary.loops = session.loops.len() as u64;
        summary.status = self.status.update(record.session, record.position);
        let (Some(position), Some(loop_record)) = (record.position, record.record()) else { return };
        summary.add_model(&loop_record.config.model);
        for message in loop_record.messages.iter().skip(record.own_before) {
            summary.messages += 1;
            summary.add_message(message, &loop_record.config);
        }
        for message in loop_record.other_messages.iter().skip(record.other_before) {
            summary.add_cost(message, &loop_record.config);
        }
        self.used.resize(record.session.loops.len().max(self.used.len()), Usage::default());
        if let Some(used) = self.used.get_mut(position) {
            summary.usage = without(&summary.usage, used).combine(&loop_record.usage);
            *used = loop_record.usage;
        }
    }
}

fn without(sum: &Usage, part: &Usage) -> Usage {
    let mut rest = *sum;
    rest.input = sum.input.saturating_sub(part.input);
    rest.output = sum.output.saturating_sub(part.output);
    rest.reasoning = sum.reasoning.saturating_sub(part.reasoning);
    rest.cache_read = sum.cache_read.saturating_sub(part.cache_read);
    rest.cache_write = sum.cache_write.saturating_sub(part.cache_write);
    rest.cache_write_long = sum.cache_write_long.saturating_sub(part.cache_write_long);
    rest.server_tool_calls = sum.server_tool_calls.saturating_sub(part.server_tool_calls);
    rest.web_searches = sum.web_searches.saturating_sub(part.web_searches);
    rest.total_tokens = sum.total_tokens.saturating_sub(part.total_tokens);
    rest
}

/// The status of a session that is being written. Its cost does not depend on the number of loops, unless some of them
/// are in a group.
#[derive(Debug, Default)]
struct LiveStatus {
    /// The open loops.
    open: BTreeSet<usize>,
    /// The number of known loops.
    loops: usize,
    has_groups: bool,
}

impl LiveStatus {
    fn of(session: &Session) -> Self {
        let mut status = Self::default();
        status.update(session, None);
        status
    }

    /// Returns the status after a record of the loop at this position.
    fn update(&mut self, session: &Session, position: Option<usize>) -> Option<LoopStatus> {
        let new = session.loops.iter().skip(self.loops);
        self.has_groups |= new.clone().any(|record| record.group.is_some());
        self.open.extend((self.loops..session.loops.len()).chain(position));
        self.loops = session.loops.len();
        let status = |at: &usize| session.loops.get(*at).map(|record| record.status);
        self.open.retain(|at| status(at).is_some_and(LoopStatus::is_open));
        if self.has_groups {
            return status_of_session(session);
        }
        status_of(self.open.iter().filter_map(status), None).or(session.loops.last().map(|r| r.status))
    }
}
