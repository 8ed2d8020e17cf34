//! Laws about the events of a run.

use std::collections::{BTreeMap, BTreeSet};

use agent_core::event::NumberedEvent;
use agent_core::{AgentEvent, LoopId, ToolCallId};

use super::Evidence;
use crate::log::What;
use crate::process::ID;

/// Every start has its end, in the events that the journal has of each loop.
pub(super) fn paired(evidence: &Evidence<'_>) -> Result<(), String> {
    let members = evidence.members();
    for (id, events) in evidence.loops() {
        let mut pairs = Pairs::default();
        for (n, (_, event)) in events.iter().enumerate() {
            if event.number != n as u64 + 1 {
                return Err(format!("the event {} of {id} has the number {}", n + 1, event.number));
            }
            pairs.push(&event.event).map_err(|what| format!("{what} in {id}"))?;
        }
        if !pairs.ended {
            let waits = events.last().is_some_and(|(_, event)| event.event.is_terminal());
            // A record that a killed process did not see acknowledged is noted by the next process.
            let killed = evidence.processes.len() > 1;
            // A branch is continued by a program that explores again, which is a law of its own.
            // A sub-agent in the background ends with its process, and its call gets a result that states it.
            let is_main = id.as_str().strip_prefix(ID).is_some_and(|rest| rest.starts_with('.'));
            let other =
                !is_main || events.first().is_some_and(|(_, event)| event.depth > 0) || members.contains(id);
            let left = other && (killed || evidence.has_store_failure());
            if !(waits || left) {
                return Err(format!("{id} has no end"));
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct Pairs {
    turn: bool,
    message: bool,
    open: BTreeSet<ToolCallId>,
    begun: BTreeSet<ToolCallId>,
    messages: usize,
    ended: bool,
}

impl Pairs {
    fn push(&mut self, event: &AgentEvent) -> Result<(), String> {
        if self.ended {
            return Err("an event follows the end".to_owned());
        }
        match event {
            AgentEvent::TurnStart { .. } => begin(&mut self.turn, "a turn")?,
            AgentEvent::TurnEnd { .. } => {
                end(&mut self.turn, "a turn")?;
                if let Some(id) = self.open.first() {
                    return Err(format!("a turn ended before {id}"));
                }
                self.begun.clear();
            }
            AgentEvent::MessageStart { .. } => begin(&mut self.message, "a message")?,
            AgentEvent::MessageEnd { superseded, .. } => {
                end(&mut self.message, "a message")?;
                self.messages += usize::from(!superseded);
            }
            AgentEvent::ToolExecutionStart { tool_call_id, .. } => {
                if !self.begun.insert(tool_call_id.clone()) {
                    return Err(format!("{tool_call_id} began twice"));
                }
                self.open.insert(tool_call_id.clone());
            }
            AgentEvent::ToolExecutionEnd(end) if !self.open.remove(&end.tool_call_id) => {
                return Err(format!("{} ended without a start", end.tool_call_id));
            }
            AgentEvent::AgentEnd(end) => {
                if self.turn || self.message || !self.open.is_empty() {
                    return Err("the run ended inside of a turn or a message".to_owned());
                }
                if end.messages.len() != self.messages {
                    let (has, ended) = (end.messages.len(), self.messages);
                    return Err(format!("the end has {has} messages, and {ended} have ended"));
                }
                self.ended = true;
            }
            _ => {}
        }
        Ok(())
    }
}

fn begin(open: &mut bool, what: &str) -> Result<(), String> {
    if std::mem::replace(open, true) { Err(format!("{what} began inside of {what}")) } else { Ok(()) }
}

fn end(open: &mut bool, what: &str) -> Result<(), String> {
    if std::mem::replace(open, false) { Ok(()) } else { Err(format!("{what} ended that had not begun")) }
}

/// Receivers get what was recorded, in order and without gaps, and a last event.
pub(super) fn delivered(evidence: &Evidence<'_>) -> Result<(), String> {
    let mut recorded: BTreeMap<(&LoopId, u64), Vec<&AgentEvent>> = BTreeMap::new();
    for entry in &evidence.log.entries {
        if let What::Recorded(event) = &entry.what {
            recorded.entry((event.event.loop_id(), event.number)).or_default().push(&event.event);
        }
    }
    for process in evidence.processes {
        // A process that has lost its session ends without a last event.
        for (n, stream) in process.delivered.iter().enumerate().filter(|_| !process.replaced) {
            let cut_off = process.cuts_off() && n + 1 == process.delivered.len();
            stream_of(stream, &recorded, cut_off)?;
        }
    }
    Ok(())
}

fn stream_of(
    stream: &[NumberedEvent],
    recorded: &BTreeMap<(&LoopId, u64), Vec<&AgentEvent>>,
    cut_off: bool,
) -> Result<(), String> {
    let mut next: BTreeMap<&LoopId, u64> = BTreeMap::new();
    for received in stream {
        let id = received.event.loop_id();
        if received.is_live() || ends_unrecorded(received, stream, recorded) {
            continue;
        }
        let expected = next.insert(id, received.number + 1).unwrap_or(received.number);
        let skipped = (expected..received.number).all(|number| {
            let events = recorded.get(&(id, number)).into_iter().flatten();
            events.clone().next().is_some()
                && events.clone().all(|e| matches!(e, AgentEvent::RunSuspended { .. }))
        });
        if received.number < expected || !skipped {
            return Err(format!("event {} of {id} was delivered instead of {expected}", received.number));
        }
        let known = recorded.get(&(id, received.number)).into_iter().flatten();
        if !cut_off && !known.clone().any(|event| **event == received.event) {
            return Err(format!("event {} of {id} was delivered and not recorded", received.number));
        }
    }
    match stream.last() {
        _ if cut_off => Ok(()),
        Some(last) if last.event.is_terminal() => Ok(()),
        _ => Err("a receiver got no last event".to_owned()),
    }
}

/// Returns whether this is the end of a run whose record failed. It has the number of the last recorded event, and only the
/// start of a reply is delivered before it is recorded.
fn ends_unrecorded(
    end: &NumberedEvent,
    stream: &[NumberedEvent],
    recorded: &BTreeMap<(&LoopId, u64), Vec<&AgentEvent>>,
) -> bool {
    let id = end.event.loop_id();
    let is_early = |event: &AgentEvent| matches!(event, AgentEvent::MessageStart { .. });
    let mut later = stream.iter().filter(|other| other.event.loop_id() == id && other.number > end.number);
    let known = recorded.get(&(id, end.number)).into_iter().flatten();
    end.event.is_terminal()
        && !known.clone().any(|event| **event == end.event)
        && later.all(|other| other.is_live() || is_early(&other.event))
}

/// A run has at most as many turns and tokens as its limits allow, and as many retries as its policy.
pub(super) fn limits(evidence: &Evidence<'_>) -> Result<(), String> {
    let Some(process) = evidence.processes.first() else { return Ok(()) };
    for (id, events) in evidence.loops() {
        if events.first().is_some_and(|(_, event)| event.depth > 0) {
            continue;
        }
        let (mut turns, mut tokens) = (0, 0);
        for (_, event) in events {
            match &event.event {
                AgentEvent::TurnStart { .. } => {
                    let Some(limits) = &process.limits else { continue };
                    if limits.max_turns.is_some_and(|most| turns >= most) {
                        return Err(format!("{id} began turn {} of at most {turns}", turns + 1));
                    }
                    if limits.max_total_tokens.is_some_and(|most| tokens >= most) {
                        return Err(format!("{id} began a turn after {tokens} tokens"));
                    }
                    turns += 1;
                }
                AgentEvent::TurnEnd { usage, .. } => tokens += usage.total_tokens,
                AgentEvent::RetryStart(note) if note.attempt > process.max_retries => {
                    return Err(format!(
                        "{id} made retry {} of at most {}",
                        note.attempt, process.max_retries
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
