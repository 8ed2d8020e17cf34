//! The JSON form of a session.

use std::collections::BTreeMap;

use agent_core::run::{RunCheckpoint, RunSetup};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::event_messages::{PlacedEvent, Places, read_event};
use super::texts::{LONG_TEXT, NoReferences, Resolve, pack, unpack};
use super::{Extra, LoopEvent, LoopRecord, OpenRun, SESSION_VERSION, Session};

/// What is wrong with a session's JSON, and where.
#[derive(Debug)]
pub(crate) struct FormError {
    pub(crate) place: String,
    pub(crate) reason: String,
}

impl std::fmt::Display for FormError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

fn wrong(place: impl Into<String>) -> impl FnOnce(serde_json::Error) -> FormError {
    let place = place.into();
    move |e| FormError { place, reason: e.to_string() }
}

/// Removes a list from an object; an absent one is empty.
fn take_list(value: &mut Value, key: &str) -> Result<Vec<Value>, FormError> {
    match value.as_object_mut().and_then(|map| map.shift_remove(key)) {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(FormError { place: key.to_owned(), reason: "this is not a list".to_owned() }),
    }
}

/// Returns the session without its loops.
pub(super) fn head_value(session: &Session) -> Result<Value, serde_json::Error> {
    let mut value = Session::serialize(session, serde_json::value::Serializer)?;
    if let Some(map) = value.as_object_mut() {
        map.shift_insert(0, "version".to_owned(), json!(SESSION_VERSION));
    }
    session.extra.merge_into(&mut value);
    Ok(value)
}

/// Returns the session with its loops.
pub(super) fn session_value(session: &Session) -> Result<Value, serde_json::Error> {
    let mut value = head_value(session)?;
    let loops = session.loops.iter().map(LoopRecord::to_value).collect::<Result<_, _>>()?;
    if let Some(map) = value.as_object_mut() {
        map.insert("loops".to_owned(), Value::Array(loops));
    }
    Ok(value)
}

/// Reads what [`session_value`] returned, in this version or an earlier one.
pub(super) fn read_session(mut value: Value) -> Result<Session, FormError> {
    let loops = take_list(&mut value, "loops")?;
    let original = value.clone();
    let version = original.get("version").and_then(Value::as_u64);
    if version.is_none_or(|version| version > u64::from(SESSION_VERSION)) {
        let found = original.get("version").unwrap_or(&Value::Null);
        let reason = format!("{found} is not a version up to {SESSION_VERSION}");
        return Err(FormError { place: "version".to_owned(), reason });
    }
    let mut session = Session::deserialize(value).map_err(wrong("the session's own fields"))?;
    session.extra = Extra::between(&original, &head_value(&session).map_err(wrong("the session"))?);
    for (at, value) in loops.into_iter().enumerate() {
        let record = LoopRecord::from_value(value)
            .map_err(|e| FormError { place: format!("loops[{at}].{}", e.place), reason: e.reason })?;
        session.loops.push(record);
    }
    Ok(session)
}

impl LoopRecord {
    pub(crate) fn to_value(&self) -> Result<Value, serde_json::Error> {
        let mut value = Self::serialize(self, serde_json::value::Serializer)?;
        let mut texts = BTreeMap::new();
        for key in ["messages", "other_messages"] {
            if let Some(part) = value.get(key) {
                collect_texts(part, &mut format!("/{key}"), &mut texts);
            }
        }
        let places = Places::of(self);
        let mut events = Vec::with_capacity(self.events.len());
        for (at, event) in self.events.iter().enumerate() {
            let later = self.events.iter().skip(at + 1).take(NEAR).map(|e| &e.event);
            let placed = PlacedEvent::before(&event.event, later, &self.loop_id, &places)?;
            let mut written = serde_json::to_value(placed)?;
            if event.known().is_some_and(|known| *known.loop_id() == self.loop_id)
                && let Some(map) = written.as_object_mut()
            {
                map.shift_remove("loop_id");
            }
            let mut known =
                |text: &str| texts.get(text).map(|pointer: &String| Value::String(pointer.clone()));
            events.push(json!({ "sequence": event.sequence, "event": pack(written, &mut known) }));
        }
        drop(texts);
        value = pack(value, &mut |_| None);
        if let Some(map) = value.as_object_mut() {
            map.insert("events".to_owned(), Value::Array(events));
        }
        self.extra.merge_into(&mut value);
        Ok(value)
    }

    pub(crate) fn from_value(mut value: Value) -> Result<Self, FormError> {
        let original = value.clone();
        let events = take_list(&mut value, "events")?;
        let fields = unpack(value, &mut NoReferences)
            .map_err(|reason| FormError { place: "(fields)".to_owned(), reason })?;
        let mut record = Self::deserialize(fields.clone()).map_err(wrong("(fields)"))?;
        // The limit for the bytes that references expand to; each event refers to a text a few times at most.
        let mut budget = text_budget(&original);
        for (at, item) in events.into_iter().enumerate() {
            let event = read_loop_event(item, &fields, &record, &mut budget)
                .map_err(|reason| FormError { place: format!("events[{at}]"), reason })?;
            record.events.push(event);
        }
        record.extra =
            Extra::between(&original, &record.to_value().map_err(wrong("(the loop, written again)"))?);
        Ok(record)
    }
}

/// How many events after the beginning of a reply are searched for its end.
const NEAR: usize = 4;

fn read_loop_event(
    mut item: Value,
    fields: &Value,
    record: &LoopRecord,
    budget: &mut usize,
) -> Result<LoopEvent, String> {
    let sequence = item.get("sequence").and_then(Value::as_u64).ok_or("there is no sequence")?;
    let event = item.get_mut("event").map(Value::take).ok_or("there is no event")?;
    let event = unpack(event, &mut Pointers { fields, budget })?;
    Ok(LoopEvent { sequence, event: read_event(event, record)? })
}

/// References as JSON pointers into the fields of a loop.
struct Pointers<'a> {
    fields: &'a Value,
    budget: &'a mut usize,
}

impl Resolve for Pointers<'_> {
    fn met(&mut self, _: &str) {}

    fn find(&mut self, place: &Value) -> Result<String, String> {
        let pointer = place.as_str().ok_or("a reference is no text")?;
        let text = self.fields.pointer(pointer).and_then(Value::as_str);
        let text = text.ok_or_else(|| format!("{pointer} is no text of this loop"))?;
        spend(self.budget, text.len())?;
        Ok(text.to_owned())
    }
}

/// Returns the number of bytes that references can expand to, so that a small file cannot fill the memory.
pub(crate) fn text_budget(value: &Value) -> usize {
    fn texts(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(texts).sum(),
            Value::Object(map) => map.values().map(texts).sum(),
            _ => 0,
        }
    }
    budget_for(texts(value))
}

/// How often references can repeat the texts of a file, on average. Recorded files stay far below this.
const UNFOLDED_PER_BYTE: usize = 64;

/// The minimum of the limit, for small files: 16 MiB.
const UNFOLDED_AT_LEAST: usize = 16 << 20;

/// Returns the number of bytes that references can expand to in a file of this size.
pub(crate) fn budget_for(bytes: usize) -> usize {
    bytes.saturating_mul(UNFOLDED_PER_BYTE).max(UNFOLDED_AT_LEAST)
}

pub(crate) fn spend(budget: &mut usize, bytes: usize) -> Result<(), String> {
    *budget = budget.checked_sub(bytes).ok_or("its references unfold to far more than the file holds")?;
    Ok(())
}

fn collect_texts(value: &Value, pointer: &mut String, texts: &mut BTreeMap<String, String>) {
    match value {
        Value::String(text) if text.len() >= LONG_TEXT && !texts.contains_key(text) => {
            texts.insert(text.clone(), pointer.clone());
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                below(pointer, &at.to_string(), |p| collect_texts(item, p, texts));
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                below(pointer, &key, |p| collect_texts(item, p, texts));
            }
        }
        _ => {}
    }
}

fn below(pointer: &mut String, key: &str, visit: impl FnOnce(&mut String)) {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(key);
    visit(pointer);
    pointer.truncate(length);
}

impl Serialize for Session {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Session {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for LoopRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LoopRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// A state that cannot be read is preserved as [`OpenRun::Foreign`].
impl<'de> Deserialize<'de> for OpenRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Known {
            setup: Box<RunSetup>,
            light: Box<RunCheckpoint>,
        }
        let value = Value::deserialize(deserializer)?;
        Ok(match serde_json::from_value::<Known>(value.clone()) {
            Ok(Known { setup, light }) => Self::Known { setup, light },
            Err(_) => Self::Foreign(value),
        })
    }
}
