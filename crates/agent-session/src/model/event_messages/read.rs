//! Reads the form of events in files: replaces positions by messages.

use agent_core::{AgentEvent, Entry, MessageRef, Timestamp};
use serde_json::{Value, json};

use super::beginning;
use crate::model::{LoopRecord, RecordedEvent, form1};

/// Returns the event with its messages, which are shared with the loop's lists. An event of an unknown kind is returned
/// unchanged.
///
/// # Errors
/// When the event refers to a message that does not exist.
pub(crate) fn read_event(mut value: Value, record: &LoopRecord) -> Result<RecordedEvent, String> {
    let original = value.clone();
    // An event of the loop itself does not name it.
    if let Some(map) = value.as_object_mut() {
        map.entry("loop_id").or_insert_with(|| json!(record.loop_id));
    }
    let kind = value.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut single = None;
    let mut list = Vec::new();
    let mut nested: Vec<Vec<Entry>> = Vec::new();
    match kind.as_str() {
        "MessageStart" | "MessageEnd" => single = take_one(&mut value, record, &blank())?,
        "TurnEnd" => {
            single = take_one(&mut value, record, &blank())?;
            list = take_list(&mut value, "tool_results", record)?;
        }
        "AgentEnd" => list = take_list(&mut value, "messages", record)?,
        "CompactionEnded" => nested = take_splices(&mut value, record)?,
        _ => {}
    }
    let Ok(mut event) = form1::read(value) else {
        return Ok(RecordedEvent::Foreign(original));
    };
    match &mut event {
        AgentEvent::MessageStart { message, .. } | AgentEvent::MessageEnd { message, .. } => {
            if let Some(found) = single {
                *message = found;
            }
        }
        AgentEvent::TurnEnd { message, tool_results, .. } => {
            *message = single;
            *tool_results = list;
        }
        AgentEvent::AgentEnd(end) => end.messages = list.into(),
        AgentEvent::CompactionEnded(ended) => {
            for (splice, entries) in ended.splices.iter_mut().zip(nested) {
                splice.messages = entries;
            }
        }
        _ => {}
    }
    Ok(RecordedEvent::Known(Box::new(event)))
}

/// Returns the message that replaces another one while the rest of the event is read.
pub(in crate::model) fn blank() -> Value {
    json!({ "role": "extension", "kind": "", "data": null })
}

fn take_one(value: &mut Value, record: &LoopRecord, blank: &Value) -> Result<Option<MessageRef>, String> {
    match value.get_mut("message") {
        None | Some(Value::Null) => Ok(None),
        Some(place) => {
            let message = read_place(place, record)?;
            *place = blank.clone();
            Ok(Some(message))
        }
    }
}

fn take_list(value: &mut Value, key: &str, record: &LoopRecord) -> Result<Vec<MessageRef>, String> {
    match value.get_mut(key) {
        Some(Value::Array(places)) => {
            std::mem::take(places).iter().map(|place| read_place(place, record)).collect()
        }
        _ => Ok(Vec::new()),
    }
}

fn take_splices(value: &mut Value, record: &LoopRecord) -> Result<Vec<Vec<Entry>>, String> {
    let splices = value.get_mut("splices").and_then(Value::as_array_mut);
    splices.map_or_else(|| Ok(Vec::new()), |splices| read_splices(splices, record))
}

/// Takes the entries out of splices.
pub(in crate::model) fn read_splices(
    splices: &mut [Value],
    record: &LoopRecord,
) -> Result<Vec<Vec<Entry>>, String> {
    let mut lists = Vec::with_capacity(splices.len());
    for splice in splices {
        let mut entries = Vec::new();
        if let Some(Value::Array(items)) = splice.get_mut("messages") {
            for item in std::mem::take(items) {
                let tokens = item.get("tokens").and_then(Value::as_u64).unwrap_or_default();
                let place = item.get("message").ok_or("an entry of a splice has no message")?;
                entries.push(Entry::new(read_place(place, record)?, tokens));
            }
        }
        lists.push(entries);
    }
    Ok(lists)
}

pub(in crate::model) fn read_place(place: &Value, record: &LoopRecord) -> Result<MessageRef, String> {
    let at = |n: u64, list: &[MessageRef], name: &str| {
        usize::try_from(n)
            .ok()
            .and_then(|n| list.get(n))
            .cloned()
            .ok_or_else(|| format!("an event names message {n} of {} in {name}", list.len()))
    };
    if let Some(whole) = place.get("begins") {
        let whole = read_place(whole, record)?;
        let timestamp = place.get("timestamp").and_then(Value::as_u64).map(Timestamp);
        let begun = beginning(&whole, timestamp).ok_or("an event names the beginning of what is no reply")?;
        return Ok(MessageRef::new(begun));
    }
    if let Some(n) = place.as_u64() {
        return at(n, &record.messages, "messages");
    }
    if let Some(n) = place.get("other").and_then(Value::as_u64) {
        return at(n, &record.other_messages, "other_messages");
    }
    serde_json::from_value(place.clone()).map_err(|e| format!("a message cannot be read: {e}"))
}
