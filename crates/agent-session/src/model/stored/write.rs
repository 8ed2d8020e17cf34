//! Writes events.

use agent_core::{AgentEnd, AgentEvent, CompactionEnded, Entry, Message, MessageRef, Timestamp, TurnTrigger};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Short, Trigger, is_end_of_call, message_at, usage_of};
use crate::model::event_messages::{Place, PlacedMessage, Places, began};
use crate::model::{LoopEvent, LoopRecord, RecordedEvent};

/// An event in the form of a line.
#[derive(Serialize)]
#[serde(untagged)]
enum StoredEvent<'a> {
    Short(Short),
    Placed(Placed<'a>),
    Live(&'a AgentEvent),
    Value(Value),
}

/// The start or the end of a message whose other event is elsewhere.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Placed<'a> {
    MessageStart {
        message: PlacedMessage<'a>,
    },
    MessageEnd {
        message: PlacedMessage<'a>,
        tokens: u64,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        superseded: bool,
    },
}

/// A range of a loop's events, which serialize in the written form. The lines before it contain the earlier events.
pub(crate) struct Events<'a> {
    pub(super) record: &'a LoopRecord,
    pub(super) places: &'a Places,
    pub(super) range: std::ops::Range<usize>,
    /// The time of the line; `None` in a file whose lines have no time.
    pub(super) time: Option<Timestamp>,
}

impl Events<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { record, places, range, time } = self;
        let from = range.start;
        let events = record.events.get(range.clone()).unwrap_or_default();
        let later = record.events.get(from..).unwrap_or_default();
        // The turns that began before the range.
        let turns = record.turns.len().saturating_sub(later.iter().filter(|e| is_turn_start(e)).count());
        let mut writer = Writer { record, places, turns, result: 0, time: *time };
        let mut list = serializer.serialize_seq(None)?;
        let mut at = 0;
        while let Some(event) = events.get(at) {
            let (written, used) = writer.event(event, events.get(at + 1)).map_err(S::Error::custom)?;
            match record.extra.of_event(from + at) {
                None => list.serialize_element(&written)?,
                Some(extra) => {
                    let mut value = serde_json::to_value(&written).map_err(S::Error::custom)?;
                    extra.merge_into(&mut value);
                    list.serialize_element(&value)?;
                }
            }
            at += used;
        }
        list.end()
    }
}

fn is_turn_start(event: &LoopEvent) -> bool {
    matches!(event.known(), Some(AgentEvent::TurnStart { .. }))
}

struct Writer<'a> {
    record: &'a LoopRecord,
    places: &'a Places,
    /// The number of turns that have begun.
    turns: usize,
    /// The place in the loop's messages from which the result of a call is searched.
    result: usize,
    time: Option<Timestamp>,
}

impl<'a> Writer<'a> {
    /// Returns the written form, and the number of events that it stands for.
    fn event(
        &mut self,
        event: &'a LoopEvent,
        next: Option<&'a LoopEvent>,
    ) -> Result<(StoredEvent<'a>, usize), serde_json::Error> {
        let known = match &event.event {
            RecordedEvent::Foreign(value) => return Ok((StoredEvent::Value(value.clone()), 1)),
            RecordedEvent::Known(known) => &**known,
        };
        if matches!(known, AgentEvent::TurnStart { .. }) {
            self.turns += 1;
        }
        if known.loop_id() != &self.record.loop_id {
            return Ok((StoredEvent::Live(known), 1));
        }
        if let Some(both) = next.and_then(|next| self.start_and_end(known, next.known()?)) {
            return Ok((StoredEvent::Short(both), 2));
        }
        Ok((self.single(known)?, 1))
    }

    /// Returns the short form of the start and the end of a message.
    fn start_and_end(&self, start: &AgentEvent, end: &AgentEvent) -> Option<Short> {
        let (
            AgentEvent::MessageStart { message: begun, .. },
            AgentEvent::MessageEnd { loop_id, message, tokens, superseded },
        ) = (start, end)
        else {
            return None;
        };
        let place = self.places.get(message).filter(|_| *loop_id == self.record.loop_id)?;
        if !superseded && MessageRef::same(begun, message) {
            return Some(Short::Message { message: place, tokens: *tokens });
        }
        let began = began(begun, message)?;
        Some(Short::Reply { message: place, began, tokens: *tokens, superseded: *superseded })
    }

    fn single(&mut self, event: &'a AgentEvent) -> Result<StoredEvent<'a>, serde_json::Error> {
        let placed = |message: &'a MessageRef| match self.places.get(message) {
            Some(place) => PlacedMessage::At(place),
            None => PlacedMessage::Here(message),
        };
        Ok(match event {
            AgentEvent::TurnStart { turn_index, timestamp, triggered_by, .. } => {
                let Some(triggered_by) = trigger(*triggered_by) else { return Ok(StoredEvent::Live(event)) };
                let (turn_index, timestamp) = (*turn_index, self.other_time(*timestamp));
                StoredEvent::Short(Short::TurnStart { turn_index, timestamp, triggered_by })
            }
            AgentEvent::MessageStart { message, .. } => {
                StoredEvent::Placed(Placed::MessageStart { message: placed(message) })
            }
            AgentEvent::MessageEnd { message, tokens, superseded, .. } => {
                let (tokens, superseded) = (*tokens, *superseded);
                StoredEvent::Placed(Placed::MessageEnd { message: placed(message), tokens, superseded })
            }
            AgentEvent::ToolExecutionStart { .. } => {
                self.tool_start(event).map_or(StoredEvent::Live(event), StoredEvent::Short)
            }
            AgentEvent::ToolExecutionEnd(end) => {
                let place = self.result_of(end);
                place.map_or(StoredEvent::Live(event), |message| {
                    StoredEvent::Short(Short::ToolEnd { message })
                })
            }
            AgentEvent::TurnEnd { .. } => match self.turn_end(event) {
                Some(short) => StoredEvent::Short(short),
                None => StoredEvent::Live(event),
            },
            AgentEvent::AgentEnd(end) => StoredEvent::Value(self.agent_end(end)?),
            AgentEvent::CompactionEnded(ended) => StoredEvent::Value(self.compaction(ended)?),
            other => StoredEvent::Live(other),
        })
    }

    /// Returns the short form of the start of a call of the turn's reply.
    fn tool_start(&self, event: &AgentEvent) -> Option<Short> {
        let AgentEvent::ToolExecutionStart { tool_call_id, tool_name, args, .. } = event else { return None };
        let reply = self.record.turns.get(self.turns.checked_sub(1)?)?.output_message?;
        let message = self.record.messages.get(reply)?.as_llm().and_then(Message::as_assistant)?;
        let position = message.tool_calls().position(|call| call.id == *tool_call_id)?;
        let call = message.tool_calls().nth(position)?;
        let same = call.name == *tool_name && call.arguments == *args;
        same.then_some(Short::ToolStart { call: (Place::Own(reply), position) })
    }

    /// Returns the place of the message with the result of a call, if the message has everything that the event says.
    fn result_of(&mut self, end: &agent_core::ToolExecutionEnd) -> Option<Place> {
        let reply = self.record.turns.get(self.turns.checked_sub(1)?)?.output_message?;
        let from = self.result.max(reply);
        let messages = self.record.messages.iter().enumerate().skip(from);
        let result = |message: &MessageRef| match message.as_llm() {
            Some(Message::ToolResult(result)) => is_end_of_call(end, result),
            _ => false,
        };
        let (at, _) = messages.take(self.calls_of(reply) + 1).find(|(_, message)| result(message))?;
        // Calls mostly end in the order of their results.
        if at == from + 1 {
            self.result = at;
        }
        Some(Place::Own(at))
    }

    /// Returns the time of an event; `None` if it is that of the line.
    fn other_time(&self, timestamp: Timestamp) -> Option<Timestamp> {
        Some(timestamp).filter(|_| self.time != Some(timestamp))
    }

    fn calls_of(&self, reply: usize) -> usize {
        let reply = self.record.messages.get(reply).and_then(|m| m.as_llm()).and_then(Message::as_assistant);
        reply.map_or(0, |reply| reply.tool_calls().count())
    }

    fn turn_end(&self, event: &AgentEvent) -> Option<Short> {
        let AgentEvent::TurnEnd { message, usage, timestamp, tool_results, .. } = event else { return None };
        let place = message.as_ref().map(|message| self.places.get(message).ok_or(())).transpose().ok()?;
        let results = tool_results.iter().map(|m| self.places.get(m)).collect::<Option<Vec<Place>>>()?;
        let turn = self.turns.checked_sub(1).and_then(|at| self.record.turns.get(at));
        let of_turn = turn.is_some_and(|turn| {
            turn.tool_results.iter().map(|at| Place::Own(*at)).eq(results.iter().copied())
        });
        let of_reply = place.and_then(|place| usage_of(message_at(self.record, place).ok()?));
        Some(Short::TurnEnd {
            message: place,
            usage: (of_reply != Some(*usage)).then_some(*usage),
            timestamp: self.other_time(*timestamp),
            tool_results: (!of_turn).then_some(results),
        })
    }

    fn agent_end(&self, end: &AgentEnd) -> Result<Value, serde_json::Error> {
        let mut bare = end.clone();
        let messages = std::mem::take(&mut bare.messages);
        let mut value = serde_json::to_value(AgentEvent::AgentEnd(Box::new(bare)))?;
        let own = self.record.messages.len();
        let is_own = |(at, message): (usize, &MessageRef)| self.places.get(message) == Some(Place::Own(at));
        let messages = match messages.all() {
            Some(all) if all.len() != own || !all.iter().enumerate().all(is_own) => {
                Value::Array(all.iter().map(|m| self.places.write(m)).collect::<Result<_, _>>()?)
            }
            // The number of the loop's own messages, of which they are the first ones.
            _ => json!(own),
        };
        set(&mut value, "messages", messages);
        without_loop(&mut value);
        Ok(value)
    }

    fn compaction(&self, ended: &CompactionEnded) -> Result<Value, serde_json::Error> {
        let mut bare = ended.clone();
        let lists: Vec<Vec<Entry>> =
            bare.splices.iter_mut().map(|s| std::mem::take(&mut s.messages)).collect();
        let mut value = serde_json::to_value(AgentEvent::CompactionEnded(Box::new(bare)))?;
        if let Some(splices) = value.get_mut("splices").and_then(Value::as_array_mut) {
            for (splice, entries) in splices.iter_mut().zip(lists) {
                let entries: Vec<Value> = entries
                    .iter()
                    .map(|e| {
                        let message = self.places.write(e.shared())?;
                        Ok(json!({ "tokens": e.tokens(), "message": message }))
                    })
                    .collect::<Result<_, serde_json::Error>>()?;
                set(splice, "messages", Value::Array(entries));
            }
        }
        without_loop(&mut value);
        Ok(value)
    }
}

fn trigger(trigger: TurnTrigger) -> Option<Trigger> {
    Some(match trigger {
        TurnTrigger::User => Trigger::User,
        TurnTrigger::SubAgent => Trigger::SubAgent,
        TurnTrigger::Continuation => Trigger::Continuation,
        TurnTrigger::Branch => Trigger::Branch,
        _ => return None,
    })
}

fn set(value: &mut Value, key: &str, new: Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert(key.to_owned(), new);
    }
}

fn without_loop(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.shift_remove("loop_id");
    }
}
