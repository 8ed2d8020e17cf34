//! Assertions about the events of a run.
#![expect(clippy::panic, reason = "an assertion that does not hold panics")]

use std::collections::{BTreeMap, BTreeSet};

use crate::event::{AgentEvent, BudgetNote, Ended};
use crate::identity::LoopId;
use crate::message::Message;

/// Renders the events in short form, without live ones: `agent_start turn_start user assistant(text) tool+(name)
/// tool-(name) result …`. An error has a `!`, a superseded reply a `~`.
#[must_use]
pub fn transcript(events: &[AgentEvent]) -> String {
    let words: Vec<String> = events.iter().filter_map(word).collect();
    words.join(" ")
}

fn word(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::AgentStart(_) => "agent_start".into(),
        AgentEvent::InputRejected { .. } => "input_rejected".into(),
        AgentEvent::TurnStart { .. } => "turn_start".into(),
        AgentEvent::MessageEnd { message, superseded, .. } => {
            let mark = if *superseded { "~" } else { "" };
            match message.as_llm() {
                None => "note".into(),
                Some(Message::User(_)) => "user".into(),
                Some(Message::Assistant(reply)) if reply.is_failed() => {
                    format!("assistant!({}){mark}", reply.text())
                }
                Some(Message::Assistant(reply)) => format!("assistant({}){mark}", reply.text()),
                Some(Message::ToolResult(result)) => {
                    let bang = if result.is_error { "!" } else { "" };
                    format!("result{bang}({})", result.tool_call_id)
                }
            }
        }
        AgentEvent::ToolExecutionStart { tool_call_id, .. } => format!("tool+({tool_call_id})"),
        AgentEvent::ToolExecutionEnd(end) => {
            format!("tool-{}({})", if end.is_error { "!" } else { "" }, end.tool_call_id)
        }
        AgentEvent::QuestionAsked { question, .. } => format!("asked({})", question.id),
        AgentEvent::QuestionAnswered { question_id, .. } => format!("answered({question_id})"),
        AgentEvent::RunSuspended { .. } => "suspended".into(),
        AgentEvent::RouteChanged(change) => format!("route({}>{})", change.from.model, change.to.model),
        AgentEvent::RetryStart(note) => format!("retry+{}", note.attempt),
        AgentEvent::RetryEnd(note) => {
            format!("retry-{}{}", if note.error.is_some() { "!" } else { "" }, note.attempt)
        }
        AgentEvent::Budget(event) => match event.note {
            BudgetNote::Reserved { .. } => "reserved".into(),
            BudgetNote::Spent { .. } => "spent".into(),
            BudgetNote::Refused { .. } => "over_budget".into(),
            BudgetNote::Raised { .. } => "raised".into(),
        },
        AgentEvent::CacheBroken(broken) => format!("cache_broken({})", broken.field),
        AgentEvent::TurnContinued { continuation, .. } => format!("continued({continuation})"),
        AgentEvent::CompactionStarted { .. } => "compact+".into(),
        AgentEvent::CompactionEnded(_) => "compact-".into(),
        AgentEvent::TurnEnd { .. } => "turn_end".into(),
        AgentEvent::AgentEnd(end) => format!("agent_end({})", end.ended.name()),
        AgentEvent::ParallelLoopStart(start) => format!("parallel_start({})", start.loop_ids.len()),
        AgentEvent::ParallelLoopEnd(end) => match end.selected_config_index {
            Some(index) => format!("parallel_end({index})"),
            None => "parallel_end!".into(),
        },
        AgentEvent::MessageStart { .. }
        | AgentEvent::MessageUpdate { .. }
        | AgentEvent::ToolExecutionUpdate { .. }
        | AgentEvent::ProgressMessage { .. }
        | AgentEvent::JournalWarning { .. }
        | AgentEvent::TransportFallback(_)
        | AgentEvent::ModelUnknown(_) => return None,
    })
}

/// Asserts the invariants of the events of a run that ended: exactly one end, at the last position; an end for every
/// start; and the same messages in the end as in the events. The events of each child loop are checked in the same way,
/// and are before the end of the run.
///
/// # Panics
/// If an invariant does not hold.
#[track_caller]
pub fn assert_well_formed(events: &[AgentEvent]) {
    let text = transcript(events);
    let mut loops: BTreeMap<&LoopId, Vec<&AgentEvent>> = BTreeMap::new();
    for event in events {
        loops.entry(event.loop_id()).or_default().push(event);
    }
    let last = events.last().map(AgentEvent::loop_id);
    assert_eq!(
        events.first().map(AgentEvent::loop_id),
        last,
        "a child loop is not inside of the run: {text}"
    );
    for events in loops.values() {
        assert_loop(events, &text);
    }
}

#[track_caller]
fn assert_loop(events: &[&AgentEvent], text: &str) {
    let mut open_turn = false;
    let mut open_message = false;
    let mut open_tools = BTreeSet::new();
    let mut seen_tools = BTreeSet::new();
    let mut ended = Vec::new();
    for (n, event) in events.iter().enumerate() {
        let last = n + 1 == events.len();
        match event {
            AgentEvent::AgentStart(_) => {
                // A question of the `before_loop` hook precedes it.
                let only_asked = events.iter().take(n).all(|event| is_question(event));
                assert!(only_asked, "AgentStart is not first: {text}");
            }
            AgentEvent::TurnStart { .. } => {
                assert!(!std::mem::replace(&mut open_turn, true), "a turn began inside a turn: {text}");
            }
            AgentEvent::TurnEnd { .. } => {
                assert!(std::mem::replace(&mut open_turn, false), "a turn ended that had not begun: {text}");
                assert!(open_tools.is_empty(), "a turn ended with open tools: {text}");
                // An id is unique in the history. After a compaction, an id of a removed message may occur again.
                seen_tools.clear();
            }
            AgentEvent::MessageStart { .. } => {
                assert!(
                    !std::mem::replace(&mut open_message, true),
                    "a message began inside a message: {text}"
                );
            }
            AgentEvent::MessageUpdate { .. } => assert!(open_message, "an update outside a message: {text}"),
            AgentEvent::MessageEnd { message, superseded, .. } => {
                assert!(
                    std::mem::replace(&mut open_message, false),
                    "a message ended that had not begun: {text}"
                );
                if !superseded {
                    ended.push(message.clone());
                }
            }
            AgentEvent::ToolExecutionStart { tool_call_id, .. } => {
                assert!(seen_tools.insert(tool_call_id.clone()), "{tool_call_id} began twice: {text}");
                open_tools.insert(tool_call_id.clone());
            }
            AgentEvent::ToolExecutionUpdate { tool_call_id, .. }
            | AgentEvent::ProgressMessage { tool_call_id, .. } => {
                assert!(
                    open_tools.contains(tool_call_id),
                    "an update of {tool_call_id} outside its call: {text}"
                );
            }
            AgentEvent::ToolExecutionEnd(end) => {
                assert!(
                    open_tools.remove(&end.tool_call_id),
                    "{} ended without a start: {text}",
                    end.tool_call_id
                );
            }
            AgentEvent::AgentEnd(end) => {
                assert!(last, "something follows AgentEnd: {text}");
                // Of an interrupted run, only what is recorded is delivered before its end.
                let is_cut_off = matches!(end.ended, Ended::Interrupted { .. });
                assert!(
                    is_cut_off || (!open_turn && !open_message),
                    "AgentEnd inside a turn or a message: {text}"
                );
                assert_eq!(
                    end.messages.len(),
                    ended.len(),
                    "AgentEnd has another number of messages: {text}"
                );
                if let Some(all) = end.messages.all() {
                    assert_eq!(all, ended, "the messages of AgentEnd are not those that ended: {text}");
                }
            }
            _ => {}
        }
    }
    match events.last() {
        Some(last) if last.is_terminal() => {}
        _ => panic!("the stream has no end: {text}"),
    }
}

fn is_question(event: &AgentEvent) -> bool {
    matches!(
        event,
        AgentEvent::QuestionAsked { .. }
            | AgentEvent::QuestionAnswered { .. }
            | AgentEvent::RunSuspended { .. }
    )
}
