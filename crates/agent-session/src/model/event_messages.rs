//! The form of events in files: messages are replaced by their positions.
//!
//! A message of an event is a number if it is one of [`LoopRecord::messages`], `{"other": number}` if it is one of
//! [`LoopRecord::other_messages`], `{"begins": ..}` if it is the beginning of one of these, and otherwise the message.

mod read;

use std::collections::BTreeMap;

use agent_core::{
    AgentEnd, AgentEvent, AgentMessage, AssistantMessage, CompactionEnded, Entry, LlmMessage, LoopId,
    MessageRef, StopReason, Timestamp, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{LoopRecord, RecordedEvent, form1};
pub(crate) use read::read_event;
pub(super) use read::{blank, read_place, read_splices};

/// A message's place in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Place {
    Own(usize),
    Other { other: usize },
}

/// The places of a loop's messages, by their addresses. The loop holds these messages, so that no address is used twice;
/// a message that the loop releases is removed here first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    by_address: BTreeMap<usize, Place>,
    /// The number of the loop's own messages.
    own: usize,
}

pub(super) fn address(message: &MessageRef) -> usize {
    std::ptr::from_ref::<AgentMessage>(message).addr()
}

impl Places {
    pub(crate) fn of(record: &LoopRecord) -> Self {
        let own = record.messages.iter().enumerate().map(|(i, m)| (address(m), Place::Own(i)));
        let other =
            record.other_messages.iter().enumerate().map(|(i, m)| (address(m), Place::Other { other: i }));
        Self { by_address: other.chain(own).collect(), own: record.messages.len() }
    }

    pub(crate) fn get(&self, message: &MessageRef) -> Option<Place> {
        self.by_address.get(&address(message)).copied()
    }

    /// Puts a message on the list of the loop's own, unless it is there.
    pub(crate) fn own(&mut self, record: &mut LoopRecord, message: &MessageRef) -> usize {
        if let Some(Place::Own(at)) = self.get(message) {
            return at;
        }
        record.messages.push(message.clone());
        let at = record.messages.len() - 1;
        self.by_address.insert(address(message), Place::Own(at));
        self.own = record.messages.len();
        at
    }

    /// Puts a message on the list of others, unless the loop has it.
    pub(crate) fn other(&mut self, record: &mut LoopRecord, message: &MessageRef) {
        if self.get(message).is_none() {
            record.other_messages.push(message.clone());
            let place = Place::Other { other: record.other_messages.len() - 1 };
            self.by_address.insert(address(message), place);
        }
    }

    /// Removes a message that its loop does not hold any more.
    pub(super) fn remove(&mut self, message: &MessageRef) {
        self.by_address.remove(&address(message));
    }

    pub(super) fn write(&self, message: &MessageRef) -> Result<Value, serde_json::Error> {
        match self.get(message) {
            Some(place) => Ok(json!(place)),
            None => serde_json::to_value(message),
        }
    }
}

/// An event as it is written: messages are named by their places.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum PlacedEvent<'a> {
    /// An event of a frequent kind, written straight from its fields.
    Frequent(Frequent<'a>),
    /// An event that names no message.
    Plain(form1::Event<'a>),
    /// An event of any other kind, as a value.
    Whole(Value),
}

/// The events of which every turn has some.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(crate) enum Frequent<'a> {
    MessageStart {
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_id: Of<'a>,
        message: PlacedMessage<'a>,
    },
    MessageEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_id: Of<'a>,
        message: PlacedMessage<'a>,
        tokens: u64,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        superseded: bool,
    },
    TurnEnd {
        #[serde(skip_serializing_if = "Option::is_none")]
        loop_id: Of<'a>,
        message: Option<PlacedMessage<'a>>,
        usage: &'a Usage,
        timestamp: Timestamp,
        tool_results: Vec<PlacedMessage<'a>>,
    },
}

/// The loop of an event, where it is not the one whose events are written.
type Of<'a> = Option<&'a LoopId>;

/// A message by its place, or in full if it has none.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum PlacedMessage<'a> {
    At(Place),
    /// The beginning of the message at a place.
    Begins(Begun),
    Here(&'a MessageRef),
}

impl<'a> PlacedEvent<'a> {
    /// Returns the written form of an event of the loop `written`.
    pub(crate) fn of(
        event: &'a RecordedEvent,
        written: &LoopId,
        places: &Places,
    ) -> Result<Self, serde_json::Error> {
        let known = match event {
            RecordedEvent::Foreign(value) => return Ok(Self::Whole(value.clone())),
            RecordedEvent::Known(known) => &**known,
        };
        let of = |loop_id: &'a LoopId| Some(loop_id).filter(|loop_id| *loop_id != written);
        let placed = |message: &'a MessageRef| match places.get(message) {
            Some(place) => PlacedMessage::At(place),
            None => PlacedMessage::Here(message),
        };
        Ok(match known {
            AgentEvent::MessageStart { loop_id, message } => {
                Self::Frequent(Frequent::MessageStart { loop_id: of(loop_id), message: placed(message) })
            }
            AgentEvent::MessageEnd { loop_id, message, tokens, superseded } => {
                Self::Frequent(Frequent::MessageEnd {
                    loop_id: of(loop_id),
                    message: placed(message),
                    tokens: *tokens,
                    superseded: *superseded,
                })
            }
            AgentEvent::TurnEnd { loop_id, message, usage, timestamp, tool_results } => {
                Self::Frequent(Frequent::TurnEnd {
                    loop_id: of(loop_id),
                    message: message.as_ref().map(placed),
                    usage,
                    timestamp: *timestamp,
                    tool_results: tool_results.iter().map(placed).collect(),
                })
            }
            AgentEvent::AgentEnd(end) => Self::Whole(write_end(end, places)?),
            AgentEvent::CompactionEnded(ended) => Self::Whole(write_compaction(ended, places)?),
            plain => Self::Plain(form1::Event(plain)),
        })
    }

    /// Returns the written form of an event that is followed by `later`. The beginning of a reply is shortened if its end
    /// is among them.
    pub(crate) fn before(
        event: &'a RecordedEvent,
        later: impl Iterator<Item = &'a RecordedEvent>,
        written: &LoopId,
        places: &Places,
    ) -> Result<Self, serde_json::Error> {
        if let RecordedEvent::Known(known) = event
            && let AgentEvent::MessageStart { loop_id, .. } = &**known
            && let Some(end) = later.into_iter().find(|e| is_message_end(e))
            && let Some(begun) = begun(event, end, places)
        {
            let of = Some(loop_id).filter(|loop_id| *loop_id != written);
            let message = PlacedMessage::Begins(begun);
            return Ok(Self::Frequent(Frequent::MessageStart { loop_id: of, message }));
        }
        Self::of(event, written, places)
    }
}

fn is_message_end(event: &RecordedEvent) -> bool {
    matches!(event, RecordedEvent::Known(known) if matches!(**known, AgentEvent::MessageEnd { .. }))
}

fn write_end(end: &AgentEnd, places: &Places) -> Result<Value, serde_json::Error> {
    let mut bare = end.clone();
    let messages = std::mem::take(&mut bare.messages);
    let mut value = serde_json::to_value(form1::Event(&AgentEvent::AgentEnd(Box::new(bare))))?;
    let messages = match messages.all() {
        Some(all) => all.iter().map(|m| places.write(m)).collect::<Result<_, _>>()?,
        // The messages of a run are the loop's own ones.
        None => (0..places.own).map(|at| json!(Place::Own(at))).collect(),
    };
    set(&mut value, "messages", Value::Array(messages));
    Ok(value)
}

fn write_compaction(ended: &CompactionEnded, places: &Places) -> Result<Value, serde_json::Error> {
    let mut bare = ended.clone();
    let lists: Vec<Vec<Entry>> = bare.splices.iter_mut().map(|s| std::mem::take(&mut s.messages)).collect();
    let mut value = serde_json::to_value(form1::Event(&AgentEvent::CompactionEnded(Box::new(bare))))?;
    if let Some(splices) = value.get_mut("splices").and_then(Value::as_array_mut) {
        for (splice, entries) in splices.iter_mut().zip(lists) {
            let entries: Vec<Value> = entries
                .iter()
                .map(|e| Ok(json!({ "tokens": e.tokens(), "message": places.write(e.shared())? })))
                .collect::<Result<_, serde_json::Error>>()?;
            set(splice, "messages", Value::Array(entries));
        }
    }
    Ok(value)
}

fn set(value: &mut Value, key: &str, new: Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert(key.to_owned(), new);
    }
}

/// The beginning of a reply, before any content had arrived.
#[derive(Serialize)]
pub(crate) struct Begun {
    begins: Place,
    /// The time of the beginning, if the whole message has another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Timestamp>,
}

/// Returns the beginning of a reply, before any content arrived, with this time or that of the whole reply.
pub(super) fn beginning(message: &AgentMessage, timestamp: Option<Timestamp>) -> Option<AgentMessage> {
    let AgentMessage::Llm(whole) = message else { return None };
    let reply = whole.message.as_assistant()?;
    let mut begun = AssistantMessage::new(reply.provider.clone(), reply.model.clone(), StopReason::Stop);
    begun.api = reply.api;
    begun.timestamp = timestamp.unwrap_or(reply.timestamp);
    let mut message = LlmMessage::new(begun.into());
    message.turn_id.clone_from(&whole.turn_id);
    Some(message.into())
}

/// Returns the short form of the start of a reply, if the start can be restored from the reply's end.
fn begun(event: &RecordedEvent, end: &RecordedEvent, places: &Places) -> Option<Begun> {
    let (RecordedEvent::Known(event), RecordedEvent::Known(end)) = (event, end) else { return None };
    let (AgentEvent::MessageStart { message: start, .. }, AgentEvent::MessageEnd { message, .. }) =
        (&**event, &**end)
    else {
        return None;
    };
    let begins = places.get(message).filter(|_| places.get(start).is_none())?;
    began(start, message).map(|timestamp| Begun { begins, timestamp })
}

/// Returns the time of the start of a reply if it differs from that of the whole reply; `None` if the start cannot be
/// restored from the whole.
pub(super) fn began(start: &MessageRef, whole: &MessageRef) -> Option<Option<Timestamp>> {
    let time = |message: &AgentMessage| message.as_llm()?.as_assistant().map(|reply| reply.timestamp);
    let timestamp = time(start).filter(|at| Some(*at) != time(whole));
    (beginning(whole, timestamp).as_ref() == Some(&**start)).then_some(timestamp)
}
