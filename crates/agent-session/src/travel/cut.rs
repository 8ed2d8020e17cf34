//! Cuts a loop at a point.

use std::collections::BTreeMap;

use agent_core::fold::Fold;
use agent_core::{AgentEvent, AgentMessage, History, Message, ToolCallId};

use crate::error::SessionError;
use crate::model::recording::Recording;
use crate::model::{ChildLoopRef, LoopRecord, LoopStatus, OpenRun};

/// The part of a loop before a point.
pub(super) struct Cut {
    /// The conversation at the point.
    pub(super) fold: Fold,
    /// The number of the loop's own messages before the point.
    pub(super) own: usize,
    /// The number of events that belong to this part.
    pub(super) events: usize,
}

/// Applies a loop's events until it has this many messages and every call has its result.
pub(super) fn cut(record: &LoopRecord, begin: History, messages: usize) -> Result<Cut, SessionError> {
    let mut fold = Fold::new(begin);
    let mut own = 0;
    for (at, event) in record.events.iter().enumerate() {
        if messages < record.messages.len() && own >= messages && !fold.has_open_exchange() {
            return Ok(Cut { fold, own, events: with_turn_end(record, at) });
        }
        if let Some(event) = event.known() {
            fold.push(event)
                .map_err(|e| SessionError::Fold { loop_id: record.loop_id.clone(), source: Box::new(e) })?;
            own += usize::from(is_message(event));
        }
    }
    Ok(Cut { fold, own: record.messages.len(), events: record.events.len() })
}

/// Returns for each number of messages, from 0 to all, the number after the results of the calls that are open there.
pub(super) fn settled<'a>(messages: impl Iterator<Item = &'a AgentMessage>) -> Vec<usize> {
    let mut open = 0usize;
    // Whether calls are open before a message.
    let mut is_open = Vec::new();
    for message in messages {
        is_open.push(open > 0);
        match message.as_llm() {
            Some(Message::Assistant(reply)) if !reply.is_failed() => open = reply.tool_calls().count(),
            Some(Message::ToolResult(_)) => open = open.saturating_sub(1),
            _ => {}
        }
    }
    let mut place = is_open.len();
    let mut places: Vec<usize> = Vec::with_capacity(is_open.len() + 1);
    places.push(place);
    for (at, is_open) in is_open.into_iter().enumerate().rev() {
        if !is_open {
            place = at;
        }
        places.push(place);
    }
    places.reverse();
    places
}

fn is_message(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::MessageEnd { superseded: false, .. })
}

/// Includes the end of a turn that follows the turn's last message.
fn with_turn_end(record: &LoopRecord, from: usize) -> usize {
    for (at, event) in record.events.iter().enumerate().skip(from) {
        match event.known() {
            Some(AgentEvent::TurnEnd { .. }) => return at + 1,
            Some(
                AgentEvent::MessageStart { .. }
                | AgentEvent::MessageEnd { .. }
                | AgentEvent::TurnStart { .. }
                | AgentEvent::CompactionEnded(_)
                | AgentEvent::AgentEnd(_),
            ) => return from,
            _ => {}
        }
    }
    from
}

impl LoopRecord {
    /// Returns a copy of the loop up to a point, without its open run. If nothing is cut off, it contains the events after
    /// the last message.
    pub(super) fn cut_at(&self, begin: History, messages: usize) -> Result<Self, SessionError> {
        let Cut { events, own, .. } = cut(self, begin, messages)?;
        let mut copy = if own == self.messages.len() && events == self.events.len() {
            self.clone()
        } else {
            self.replayed(events)
        };
        if copy.is_open() {
            copy.status = LoopStatus::Interrupted;
        }
        copy.open_run = None::<OpenRun>;
        Ok(copy)
    }

    /// Rebuilds the loop from its first events.
    fn replayed(&self, events: usize) -> Self {
        let new =
            Self::new(self.loop_id.clone(), self.session_id.clone(), self.agent_id.clone(), self.started_at);
        let session =
            crate::model::Session::new(self.session_id.clone(), self.agent_id.clone(), self.started_at);
        let mut recording = Recording::new(session);
        let at = recording.begin(new);
        for event in self.events.iter().take(events) {
            recording.take(at, event.event.clone());
        }
        let mut copy = recording.session.loops.into_iter().next().unwrap_or_else(|| self.clone());
        for (event, original) in copy.events.iter_mut().zip(&self.events) {
            event.sequence = original.sequence;
        }
        // Of equal ids, the first counts.
        let links: BTreeMap<&ToolCallId, &ChildLoopRef> =
            self.child_loop_refs.iter().rev().map(|r| (&r.tool_call_id, r)).collect();
        for link in &mut copy.child_loop_refs {
            if let Some(same) = links.get(&link.tool_call_id) {
                link.clone_from(same);
            }
        }
        copy.parent_loop_id.clone_from(&self.parent_loop_id);
        copy.continuation_kind = self.continuation_kind.clone();
        copy.config = self.config.clone();
        copy.metadata = self.metadata.clone();
        copy.parallel_group.clone_from(&self.parallel_group);
        copy.extra = self.extra.clone();
        copy
    }
}

#[cfg(test)]
mod tests;
