//! The new messages and events of a loop in one line.

use agent_core::{AgentMessage, ExtensionMessage, LoopId, MessageRef, Timestamp};
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Events, is_live, read_event};
use crate::model::event_messages::Places;
use crate::model::recording::Recording;
use crate::model::{Extra, LoopRecord};

/// The numbers of own messages, other messages and events of a loop that earlier lines contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counts(pub(crate) usize, pub(crate) usize, pub(crate) usize);

impl Counts {
    pub(crate) fn of(record: &LoopRecord) -> Self {
        Self(record.messages.len(), record.other_messages.len(), record.events.len())
    }
}

/// The content of a loop between two counts.
pub(crate) struct Content<'a> {
    pub(crate) loop_id: &'a LoopId,
    pub(crate) after: Counts,
    pub(crate) messages: Messages<'a>,
    pub(crate) other_messages: Messages<'a>,
    pub(crate) events: Events<'a>,
}

impl<'a> Content<'a> {
    /// Returns the content after `after` and before `to`, for a line with this time. `skipped` is the number of events before
    /// those in memory.
    pub(crate) fn between(
        record: &'a LoopRecord,
        places: &'a Places,
        skipped: usize,
        after: Counts,
        to: Counts,
        time: Option<Timestamp>,
    ) -> Self {
        let messages = |list, all: &'a [MessageRef], from: usize, to: usize| {
            let messages = all.get(from..to).unwrap_or_default();
            Messages { extra: &record.extra, list, from, messages }
        };
        let events = after.2.saturating_sub(skipped)..to.2.saturating_sub(skipped);
        Self {
            loop_id: &record.loop_id,
            after,
            messages: messages("messages", &record.messages, after.0, to.0),
            other_messages: messages("other_messages", &record.other_messages, after.1, to.1),
            events: Events { record, places, range: events, time },
        }
    }
}

/// Messages of a list of a loop, which serialize with the members that this version does not know.
pub(crate) struct Messages<'a> {
    extra: &'a Extra,
    list: &'static str,
    from: usize,
    messages: &'a [MessageRef],
}

impl Messages<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.messages.len()))?;
        for (at, message) in self.messages.iter().enumerate() {
            match self.extra.item(self.list, self.from + at) {
                None => list.serialize_element(message)?,
                Some(extra) => {
                    let mut value = serde_json::to_value(message).map_err(S::Error::custom)?;
                    extra.merge_into(&mut value);
                    list.serialize_element(&value)?;
                }
            }
        }
        list.end()
    }
}

/// The content of a line that is being read.
#[derive(Debug)]
pub(crate) struct ReadContent<'a> {
    pub(crate) after: Counts,
    pub(crate) messages: Vec<&'a RawValue>,
    pub(crate) other_messages: Vec<&'a RawValue>,
    pub(crate) events: Vec<&'a RawValue>,
    /// The time of the line; `None` in a file whose lines have no time.
    pub(crate) time: Option<Timestamp>,
}

/// What a reader does about lines that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// They are an error.
    Refused,
    /// Other messages stand at the places of those that are missing, so that the places of the others stay the same.
    Filled,
}

/// The maximum number of messages in a row that can be missing in a salvaged loop.
const MAX_MISSING: usize = 1 << 20;

/// The kind of the note that stands at the place of a message that could not be read.
pub(crate) const MISSING: &str = "missing";

/// Returns a message that stands at the place of a missing one.
fn missing_message() -> MessageRef {
    let text = Value::from("This message could not be read.");
    MessageRef::new(AgentMessage::from(ExtensionMessage::new(MISSING, text)))
}

impl ReadContent<'_> {
    /// Adds the content to the loop at a position. `budget` is the number of bytes that references can expand to.
    ///
    /// # Errors
    /// The reason why it does not fit.
    pub(crate) fn apply(
        &self,
        recording: &mut Recording,
        at: usize,
        gaps: Gaps,
        budget: &mut usize,
    ) -> Result<(), String> {
        let record = recording.record(at).ok_or("the loop is gone")?;
        let has = Counts(record.messages.len(), record.other_messages.len(), recording.event_count(at));
        if gaps == Gaps::Refused && has != self.after {
            let (Counts(m, o, e), Counts(fm, fo, fe)) = (has, self.after);
            return Err(format!(
                "it continues the loop after {fm} messages, {fo} other messages and {fe} events, and there are {m}, {o} and {e}"
            ));
        }
        if self.after.0.saturating_sub(has.0).max(self.after.1.saturating_sub(has.1)) > MAX_MISSING {
            return Err(format!("more than {MAX_MISSING} messages before it are missing"));
        }
        let missing = |wanted: usize, has: usize| {
            std::iter::repeat_with(missing_message).take(wanted.saturating_sub(has)).collect::<Vec<_>>()
        };
        let (mut own, mut own_extra) = (missing(self.after.0, has.0), Vec::new());
        let (mut other, mut other_extra) = (missing(self.after.1, has.1), Vec::new());
        read_messages(&self.messages, &mut own, &mut own_extra)?;
        read_messages(&self.other_messages, &mut other, &mut other_extra)?;
        recording.put_messages(at, &own, &other);
        for raw in &self.events {
            let record = recording.record(at).ok_or("the loop is gone")?;
            let first = recording.event_count(at);
            let events = read_event(raw, record, self.time, budget)?;
            for event in events {
                recording.take(at, event);
            }
            self.keep_extra(recording, at, first, raw)?;
        }
        for (list, before, extras) in [("messages", has.0, own_extra), ("other_messages", has.1, other_extra)]
        {
            if let Some(record) = recording.record_mut(at) {
                extras.into_iter().for_each(|(n, extra)| record.extra.put_item(list, before + n, extra));
            }
        }
        Ok(())
    }

    /// Keeps the members of an event that this version does not know.
    fn keep_extra(
        &self,
        recording: &mut Recording,
        at: usize,
        first: usize,
        raw: &RawValue,
    ) -> Result<(), String> {
        let Some((_, record, places, skipped)) = recording.view(at) else { return Ok(()) };
        let from = first.saturating_sub(skipped);
        // A line of an earlier version says the time of each turn.
        let time = self.time.filter(|_| !raw.get().contains("\"timestamp\""));
        let events = Events { record, places, range: from..record.events.len(), time };
        let text = serde_json::to_string(&events).map_err(|e| e.to_string())?;
        let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or_default();
        // What the line says is mostly what this version would write. More than one event is another writing of the same.
        if text == raw.get() || text.is_empty() {
            return Ok(());
        }
        // A line can have the live form of an event that this version would write in its short form.
        let live = match record.events.get(from..) {
            Some([event]) if is_live(raw) => event.known().map(serde_json::to_string),
            _ => None,
        };
        let live = live.transpose().map_err(|e| e.to_string())?;
        let text = live.as_deref().unwrap_or(text);
        let Ok(extra) = between(raw.get(), text) else { return Ok(()) };
        if extra != Extra::Nothing
            && let Some(record) = recording.record_mut(at)
        {
            record.extra.put_item("events", from, Extra::Fields(vec![("event".to_owned(), extra)]));
        }
        Ok(())
    }
}

/// Reads messages, and the members of each that this version does not know.
fn read_messages(
    raw: &[&RawValue],
    messages: &mut Vec<MessageRef>,
    extras: &mut Vec<(usize, Extra)>,
) -> Result<(), String> {
    let mut text = Vec::new();
    for raw in raw {
        let message: MessageRef =
            serde_json::from_str(raw.get()).map_err(|e| format!("a message cannot be read: {e}"))?;
        text.clear();
        serde_json::to_writer(&mut text, &message).map_err(|e| e.to_string())?;
        if text != raw.get().as_bytes() {
            let written = std::str::from_utf8(&text).unwrap_or("null");
            extras.push((messages.len(), between(raw.get(), written)?));
        }
        messages.push(message);
    }
    Ok(())
}

/// Returns the members of the first text that are not in the second one.
fn between(read: &str, known: &str) -> Result<Extra, String> {
    let value = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| e.to_string());
    Ok(Extra::between(&value(read)?, &value(known)?))
}
