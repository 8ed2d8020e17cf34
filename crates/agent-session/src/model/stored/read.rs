//! Reads events.

use std::borrow::Cow;

use agent_core::{AgentEvent, Message, MessageRef, Timestamp, ToolExecutionEnd, TurnTrigger};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Short, Trigger, call_at, message_at, start_of_call, usage_of};
use crate::model::event_messages::{Place, beginning, blank, read_place, read_splices};
use crate::model::form::spend;
use crate::model::{LoopRecord, RecordedEvent};

/// The members of an event that decide how it is read.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    /// Only live events name their loop.
    #[serde(borrow, default)]
    loop_id: Option<Cow<'a, str>>,
}

/// Returns the event, or the two events, that a written form stands for. The loop must contain the messages of the line
/// and the events before this one. An event of an unknown kind is returned unchanged.
///
/// `time` is the time of the line, and `budget` the number of bytes that the rest of the file can expand to.
///
/// # Errors
/// When the event refers to a message that does not exist, or expands to more than the budget.
pub(crate) fn read_event(
    raw: &RawValue,
    record: &LoopRecord,
    time: Option<Timestamp>,
    budget: &mut usize,
) -> Result<Vec<RecordedEvent>, String> {
    let text = raw.get();
    let Kind { kind, loop_id } =
        serde_json::from_str(text).map_err(|e| format!("an event without a kind: {e}"))?;
    let events = match &*kind {
        _ if loop_id.is_some() => live(text)?,
        "message" | "reply" | "turn_start" | "tool_start" | "tool_end" | "turn_end" => {
            match serde_json::from_str(text) {
                Ok(short) => return read_short(short, record, time, budget),
                Err(_) => live(text)?,
            }
        }
        "message_start" | "message_end" | "agent_end" | "compaction_ended" => {
            placed(text, &kind, record, budget)?
        }
        _ => live(text)?,
    };
    Ok(vec![events])
}

/// Returns whether an event is in the form of live events.
pub(super) fn is_live(raw: &RawValue) -> bool {
    serde_json::from_str::<Kind<'_>>(raw.get()).is_ok_and(|kind| kind.loop_id.is_some())
}

fn known(event: AgentEvent) -> RecordedEvent {
    RecordedEvent::Known(Box::new(event))
}

/// Reads an event in the form of live events.
fn live(text: &str) -> Result<RecordedEvent, String> {
    match serde_json::from_str::<AgentEvent>(text) {
        Ok(event) => Ok(known(event)),
        Err(_) => serde_json::from_str(text).map(RecordedEvent::Foreign).map_err(|e| e.to_string()),
    }
}

fn read_short(
    short: Short,
    record: &LoopRecord,
    time: Option<Timestamp>,
    budget: &mut usize,
) -> Result<Vec<RecordedEvent>, String> {
    let time_of = |own: Option<Timestamp>| own.or(time).ok_or("a turn has no time");
    let loop_id = record.loop_id.clone();
    let event = match short {
        Short::Message { message, tokens } => {
            let message = message_at(record, message)?.clone();
            let start = AgentEvent::MessageStart { loop_id: loop_id.clone(), message: message.clone() };
            let end = AgentEvent::MessageEnd { loop_id, message, tokens, superseded: false };
            return Ok(vec![known(start), known(end)]);
        }
        Short::Reply { message, began, tokens, superseded } => {
            let message = message_at(record, message)?.clone();
            let begun =
                beginning(&message, began).ok_or("an event names the beginning of what is no reply")?;
            let start =
                AgentEvent::MessageStart { loop_id: loop_id.clone(), message: MessageRef::new(begun) };
            let end = AgentEvent::MessageEnd { loop_id, message, tokens, superseded };
            return Ok(vec![known(start), known(end)]);
        }
        Short::TurnStart { turn_index, timestamp, triggered_by } => {
            let timestamp = time_of(timestamp)?;
            AgentEvent::TurnStart { loop_id, turn_index, timestamp, triggered_by: triggered_by.into() }
        }
        Short::ToolStart { call } => start_of_call(&loop_id, call_at(record, call)?),
        Short::ToolEnd { message } => match message_at(record, message)?.as_llm() {
            Some(Message::ToolResult(result)) => {
                spend(budget, json_len(result)?)?;
                AgentEvent::ToolExecutionEnd(Box::new(ToolExecutionEnd::from_message(loop_id, result)))
            }
            _ => return Err("an event names the result of a call, and there is another message".to_owned()),
        },
        Short::TurnEnd { message, usage, timestamp, tool_results } => {
            let message = message.map(|place| message_at(record, place)).transpose()?.cloned();
            let of_reply = || message.as_ref().and_then(|message| usage_of(message));
            let usage = usage.or_else(of_reply).ok_or("the end of a turn has no usage")?;
            let places = match tool_results {
                Some(places) => places,
                None => {
                    let turn = record.turns.last().ok_or("a turn ends that did not begin")?;
                    turn.tool_results.iter().map(|at| Place::Own(*at)).collect()
                }
            };
            spend(budget, places.len() * size_of::<MessageRef>())?;
            let results = places.into_iter().map(|place| message_at(record, place).cloned());
            let tool_results = results.collect::<Result<_, _>>()?;
            let timestamp = time_of(timestamp)?;
            AgentEvent::TurnEnd { loop_id, message, usage, timestamp, tool_results }
        }
    };
    Ok(vec![known(event)])
}

/// Returns the length of a value as JSON.
fn json_len(value: &impl Serialize) -> Result<usize, String> {
    /// Counts what is written.
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_err(|e| e.to_string())?;
    Ok(count.0)
}

impl From<Trigger> for TurnTrigger {
    fn from(trigger: Trigger) -> Self {
        match trigger {
            Trigger::User => Self::User,
            Trigger::SubAgent => Self::SubAgent,
            Trigger::Continuation => Self::Continuation,
            Trigger::Branch => Self::Branch,
        }
    }
}

/// Reads a live event of which the messages are places.
fn placed(text: &str, kind: &str, record: &LoopRecord, budget: &mut usize) -> Result<RecordedEvent, String> {
    let original: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut value = original.clone();
    let Some(map) = value.as_object_mut() else { return Ok(RecordedEvent::Foreign(original)) };
    map.insert("loop_id".to_owned(), json!(record.loop_id));
    let mut message = None;
    let mut all = Vec::new();
    let mut nested = Vec::new();
    match kind {
        "message_start" | "message_end" => {
            let place = map.get("message").ok_or("an event names no message")?;
            message = Some(read_place(place, record)?);
            map.insert("message".to_owned(), blank());
        }
        "agent_end" => {
            all = messages_of_end(map.get("messages"), record)?;
            spend(budget, all.len() * size_of::<MessageRef>())?;
            map.insert("messages".to_owned(), json!([]));
        }
        _ => {
            if let Some(Value::Array(list)) = map.get_mut("splices") {
                nested = read_splices(list, record)?;
            }
        }
    }
    let Ok(mut event) = serde_json::from_value::<AgentEvent>(value) else {
        return Ok(RecordedEvent::Foreign(original));
    };
    match &mut event {
        AgentEvent::MessageStart { message: of, .. } | AgentEvent::MessageEnd { message: of, .. } => {
            if let Some(found) = message {
                *of = found;
            }
        }
        AgentEvent::AgentEnd(end) => end.messages = all.into(),
        AgentEvent::CompactionEnded(ended) => {
            for (splice, entries) in ended.splices.iter_mut().zip(nested) {
                splice.messages = entries;
            }
        }
        _ => {}
    }
    Ok(known(event))
}

/// Reads the messages of the end of a loop: a list, or the number of the loop's own messages.
fn messages_of_end(value: Option<&Value>, record: &LoopRecord) -> Result<Vec<MessageRef>, String> {
    if let Some(Value::Array(places)) = value {
        return places.iter().map(|place| read_place(place, record)).collect();
    }
    let number = value.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let own = number.and_then(|n| record.messages.get(..n));
    own.map(<[_]>::to_vec).ok_or_else(|| "the end of a loop has messages that the loop lacks".to_owned())
}
