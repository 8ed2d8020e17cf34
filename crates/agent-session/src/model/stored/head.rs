//! A loop without its messages and events.

use serde_json::{Map, Value};

use crate::model::event_messages::Places;
use crate::model::recording::apply_event;
use crate::model::texts::{NoReferences, pack, unpack};
use crate::model::{Extra, LoopRecord, LoopStatus};

/// The members that are written only if they differ from what the events say.
const DERIVED: [&str; 7] = ["ended_at", "status", "rejection", "ended", "turns", "usage", "child_loop_refs"];

/// The members that other lines contain.
const ELSEWHERE: [&str; 2] = ["messages", "other_messages"];

/// Returns the loop without its messages, its events, and what the events say.
pub(crate) fn write_head(record: &LoopRecord) -> Result<Value, serde_json::Error> {
    let from_events = derived(record);
    let mut value = bare(record, record)?;
    let derived = bare(&from_events, record)?;
    let same_turns = from_events.turns == record.turns;
    if let Some(map) = value.as_object_mut() {
        for key in ELSEWHERE {
            map.shift_remove(key);
        }
        if !same_turns || record.extra.has_field("turns") {
            map.insert("turns".to_owned(), serde_json::to_value(&record.turns)?);
        }
        for key in DERIVED {
            let same = if key == "turns" { same_turns } else { map.get(key) == derived.get(key) };
            // A member with parts that this version does not know is written with them.
            if same && !record.extra.has_field(key) {
                map.shift_remove(key);
            } else if !map.contains_key(key) {
                map.insert(key.to_owned(), Value::Null);
            }
        }
    }
    let mut value = pack(value, &mut |_| None);
    record.extra.without_lists().merge_into(&mut value);
    Ok(value)
}

/// Returns the JSON of a loop without lists, in which the derived members are those of `from`.
fn bare(from: &LoopRecord, record: &LoopRecord) -> Result<Value, serde_json::Error> {
    let head = LoopRecord {
        ended_at: from.ended_at,
        status: from.status,
        rejection: from.rejection.clone(),
        ended: from.ended.clone(),
        usage: from.usage,
        child_loop_refs: from.child_loop_refs.clone(),
        ..without_content(record)
    };
    LoopRecord::serialize(&head, serde_json::value::Serializer)
}

/// Returns a copy of a loop without messages, turns, events and what the events say.
fn without_content(record: &LoopRecord) -> LoopRecord {
    let mut head = LoopRecord::new(
        record.loop_id.clone(),
        record.session_id.clone(),
        record.agent_id.clone(),
        record.started_at,
    );
    head.parent_loop_id.clone_from(&record.parent_loop_id);
    head.continuation_kind = record.continuation_kind.clone();
    head.config = record.config.clone();
    head.base.clone_from(&record.base);
    head.metadata = record.metadata.clone();
    head.children_loop_ids.clone_from(&record.children_loop_ids);
    head.group.clone_from(&record.group);
    head.parallel_group.clone_from(&record.parallel_group);
    head.open_run.clone_from(&record.open_run);
    head
}

/// Returns what the events of a loop say, as it is when the loop is read.
fn derived(record: &LoopRecord) -> LoopRecord {
    let mut scratch = without_content(record);
    let mut places = Places::default();
    for event in record.events.iter().filter_map(|event| event.known()) {
        apply_event(&mut scratch, &mut places, event);
    }
    scratch
}

/// A loop's head that was read.
pub(crate) struct ReadHead {
    /// The loop without messages and events.
    head: LoopRecord,
    /// The members that are set after the last event.
    last: Map<String, Value>,
}

/// Reads what [`write_head`] returned. The lines with messages and events are applied to the loop, and then
/// [`ReadHead::finish`] completes it.
///
/// # Errors
/// The reason why it cannot be read.
pub(crate) fn read_head(value: &Value) -> Result<(LoopRecord, ReadHead), String> {
    let Value::Object(original) = value else { return Err("a loop is no object".to_owned()) };
    let mut map = match unpack(value.clone(), &mut NoReferences)? {
        Value::Object(map) => map,
        _ => return Err("a loop is no object".to_owned()),
    };
    let last: Map<String, Value> =
        DERIVED.iter().filter_map(|key| Some(((*key).to_owned(), original.get(*key)?.clone()))).collect();
    DERIVED.iter().for_each(|key| drop(map.shift_remove(*key)));
    map.insert("status".to_owned(), serde_json::to_value(LoopStatus::Running).map_err(|e| e.to_string())?);
    let mut record = LoopRecord::deserialize(Value::Object(map)).map_err(|e| e.to_string())?;
    let written = LoopRecord::serialize(&record, serde_json::value::Serializer).map_err(|e| e.to_string())?;
    let written = pack(written, &mut |_| None);
    let mut known = original.clone();
    for key in DERIVED {
        known.shift_remove(key);
    }
    record.extra = Extra::between(&Value::Object(known), &written);
    let head = without_content(&record);
    Ok((record, ReadHead { head, last }))
}

impl ReadHead {
    /// Sets the members of the head again, some of which the events of the loop changed, and those that differ from what the
    /// events said.
    ///
    /// # Errors
    /// When a member cannot be read.
    pub(crate) fn finish(self, record: &mut LoopRecord) -> Result<(), String> {
        fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
            serde_json::from_value(value).map_err(|e| e.to_string())
        }
        let Self { head, last } = self;
        record.parent_loop_id = head.parent_loop_id;
        record.continuation_kind = head.continuation_kind;
        record.started_at = head.started_at;
        record.config = head.config;
        record.metadata = head.metadata;
        record.children_loop_ids = head.children_loop_ids;
        record.group = head.group;
        record.parallel_group = head.parallel_group;
        for (key, value) in &last {
            let value = unpack(value.clone(), &mut NoReferences)?;
            match key.as_str() {
                "ended_at" => record.ended_at = read(value)?,
                "status" => record.status = read(value)?,
                "rejection" => record.rejection = read(value)?,
                "ended" => record.ended = read(value)?,
                "turns" => record.turns = read(value)?,
                "usage" => record.usage = read(value)?,
                "child_loop_refs" => record.child_loop_refs = read(value)?,
                _ => {}
            }
        }
        if last.is_empty() {
            return Ok(());
        }
        let mut known = bare(record, record).map_err(|e| e.to_string())?;
        if let (Some(map), true) = (known.as_object_mut(), last.contains_key("turns")) {
            map.insert("turns".to_owned(), serde_json::to_value(&record.turns).map_err(|e| e.to_string())?);
        }
        let known = pack(known, &mut |_| None);
        record.extra.add(Extra::between(&Value::Object(last), &known).without_nulls());
        Ok(())
    }
}
