//! The serialized form of a whole run, which contains each message once.
//!
//! The messages of the run are written as positions in its history. Only messages that a compaction removed from the
//! history are written themselves.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::budget::BudgetState;
use super::queues::Queues;
use super::{NewMessages, Phase, Run, RunSetup, Turn};
use crate::context::ContextTracker;
use crate::history::{Entry, History, MessageRef};
use crate::identity::Timestamp;
use crate::limits::ExecutionTracker;
use crate::message::{AgentMessage, Usage};
use crate::route::LostRoutes;

/// The fields of a [`Run`] as they are written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunForm {
    setup: Arc<RunSetup>,
    now: Timestamp,
    history: History,
    new_messages: Vec<Part>,
    /// The number of messages of the run that are only in the store of its journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released_messages: Option<usize>,
    prompts: Vec<Entry>,
    queues: Queues,
    tracker: ExecutionTracker,
    context: ContextTracker,
    usage: Usage,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    tool_usage: Usage,
    #[serde(default, skip_serializing_if = "LostRoutes::is_empty")]
    lost_routes: LostRoutes,
    #[serde(default, skip_serializing_if = "BudgetState::is_empty")]
    budget: BudgetState,
    turn: Turn,
    phase: Phase,
    #[serde(default)]
    emitted: u64,
    #[serde(default, skip_serializing_if = "super::child::is_zero")]
    answers: u64,
}

/// A part of the messages of a run.
enum Part {
    /// These messages of the history. The position after its last message is that of the open reply.
    Known(Range<usize>),
    /// A message that is not in the history.
    Removed(MessageRef),
}

/// The error of a run that refers to a message that it does not contain.
#[derive(Debug, thiserror::Error)]
#[error("the run refers to messages {}..{} and contains {messages}", range.start, range.end)]
pub(super) struct UnknownMessages {
    range: Range<usize>,
    messages: usize,
}

/// Returns the messages to which positions refer: those of the history, and the open reply.
fn known<'r>(history: &'r History, phase: &'r Phase) -> impl Iterator<Item = &'r MessageRef> {
    let open = match phase {
        Phase::Tools(open) => Some(open.reply.shared()),
        _ => None,
    };
    history.entries().map(Entry::shared).chain(open)
}

/// Replaces messages that the run contains elsewhere by their positions.
fn parts(run: &Run) -> Vec<Part> {
    let address = |message: &MessageRef| std::ptr::from_ref::<AgentMessage>(message).addr();
    let places: BTreeMap<usize, usize> =
        known(&run.history, &run.phase).enumerate().map(|(at, m)| (address(m), at)).collect();
    let mut parts: Vec<Part> = Vec::new();
    for message in run.new_messages.in_memory() {
        match (places.get(&address(message)), parts.last_mut()) {
            (Some(at), Some(Part::Known(range))) if range.end == *at => range.end += 1,
            (Some(at), _) => parts.push(Part::Known(*at..*at + 1)),
            (None, _) => parts.push(Part::Removed(message.clone())),
        }
    }
    parts
}

/// Returns the messages of a run, shared with its history.
fn messages(parts: Vec<Part>, history: &History, phase: &Phase) -> Result<Vec<MessageRef>, UnknownMessages> {
    let known: Vec<&MessageRef> = known(history, phase).collect();
    let mut messages = Vec::new();
    for part in parts {
        match part {
            Part::Known(range) => match known.get(range.clone()) {
                Some(found) => messages.extend(found.iter().copied().cloned()),
                None => return Err(UnknownMessages { range, messages: known.len() }),
            },
            Part::Removed(message) => messages.push(message),
        }
    }
    Ok(messages)
}

impl From<Run> for RunForm {
    fn from(run: Run) -> Self {
        Self {
            new_messages: parts(&run),
            released_messages: Some(run.new_messages.released()).filter(|released| *released > 0),
            setup: run.setup,
            now: run.now,
            history: run.history,
            prompts: run.prompts,
            queues: run.queues,
            tracker: run.tracker,
            context: run.context,
            usage: run.usage,
            tool_usage: run.tool_usage,
            lost_routes: run.lost_routes,
            budget: run.budget,
            turn: run.turn,
            phase: run.phase,
            emitted: run.emitted,
            answers: run.answers,
        }
    }
}

impl TryFrom<RunForm> for Run {
    type Error = UnknownMessages;

    fn try_from(form: RunForm) -> Result<Self, UnknownMessages> {
        Ok(Self {
            new_messages: NewMessages::with_released(
                messages(form.new_messages, &form.history, &form.phase)?,
                form.released_messages.unwrap_or_default(),
            ),
            setup: form.setup,
            now: form.now,
            history: form.history,
            prompts: form.prompts,
            queues: form.queues,
            tracker: form.tracker,
            context: form.context,
            usage: form.usage,
            tool_usage: form.tool_usage,
            lost_routes: form.lost_routes,
            budget: form.budget,
            turn: form.turn,
            phase: form.phase,
            emitted: form.emitted,
            answers: form.answers,
        })
    }
}

/// Serializes as `[start, end]` or as the message.
impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(range) => [range.start, range.end].serialize(serializer),
            Self::Removed(message) => message.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Part;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message, or the start and the end of a range of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Part, A::Error> {
                let bounds = (list.next_element()?, list.next_element()?);
                let (Some(start), Some(end)) = bounds else { return Err(A::Error::invalid_length(1, &self)) };
                if list.next_element::<usize>()?.is_some() {
                    return Err(A::Error::invalid_length(3, &self));
                }
                Ok(Part::Known(start..end))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
                MessageRef::deserialize(MapAccessDeserializer::new(map)).map(Part::Removed)
            }
        }

        deserializer.deserialize_any(Either)
    }
}
