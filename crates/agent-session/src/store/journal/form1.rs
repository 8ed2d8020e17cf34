//! Reads the lines of a journal of form 1.

use agent_core::{LoopId, MessageRef, Timestamp};
use serde_json::{Map, Value};

use super::replay::{is_next, record_of_setup_value};
use super::state::OpenRunStates;
use crate::model::event_messages::read_event;
use crate::model::form::{budget_for, spend};
use crate::model::recording::Recording;
use crate::model::texts::{Resolve, unpack};
use crate::model::{LoopBase, form1};

/// The long texts of a journal that is being read, in order.
struct ReadTexts {
    texts: Vec<String>,
    /// The remaining bytes for references in parts that are retained.
    kept: usize,
    /// The remaining bytes for references in parts that are dropped with their line: the inputs and the run's state.
    passing: usize,
    is_passing: bool,
}

impl ReadTexts {
    /// Resolves the references of a line.
    fn read_line(&mut self, line: Value, bytes: usize) -> Result<Value, String> {
        let Value::Object(map) = line else { return Err("this is no record".to_owned()) };
        self.passing = budget_for(bytes);
        let mut read = Map::new();
        for (key, value) in map {
            self.is_passing = key == "inputs" || key == "light";
            let value = unpack(value, self)?;
            read.insert(key, value);
        }
        Ok(Value::Object(read))
    }
}

impl Resolve for ReadTexts {
    fn met(&mut self, text: &str) {
        self.texts.push(text.to_owned());
    }

    fn find(&mut self, place: &Value) -> Result<String, String> {
        let number = place.as_u64().and_then(|n| usize::try_from(n).ok());
        let text = number.and_then(|n| self.texts.get(n));
        let text = text.ok_or_else(|| format!("it refers to text {place} of {}", self.texts.len()))?;
        let budget = if self.is_passing { &mut self.passing } else { &mut self.kept };
        spend(budget, text.len())?;
        Ok(text.clone())
    }
}

/// The texts of the lines that were read.
pub(super) struct Form1 {
    texts: ReadTexts,
    bytes: usize,
}

impl Form1 {
    /// Begins with no line; `bytes` is the size of all lines.
    pub(super) fn new(bytes: usize) -> Self {
        let kept = budget_for(bytes);
        Self { texts: ReadTexts { texts: Vec::new(), kept, passing: kept, is_passing: false }, bytes }
    }

    /// Applies a line, and returns its number; `None` if the session already contains it.
    ///
    /// # Errors
    /// The reason why the line cannot be applied.
    pub(super) fn take(
        &mut self,
        line: &[u8],
        recording: &mut Recording,
        open: &mut OpenRunStates,
    ) -> Result<Option<u64>, String> {
        let value: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let value = self.texts.read_line(value, self.bytes)?;
        let number = value.get("n").and_then(Value::as_u64).ok_or("it has no number")?;
        if !is_next(number, recording)? {
            return Ok(None);
        }
        match value.get("group") {
            Some(event) => take_group(recording, event)?,
            None => take_line(recording, value, open)?,
        }
        Ok(Some(number))
    }
}

/// Applies an event of a group. An unknown event is an error, because it has no place in a record.
fn take_group(recording: &mut Recording, event: &Value) -> Result<(), String> {
    let event = form1::read(event).map_err(|e| format!("the event of a group cannot be read: {e}"))?;
    recording.take_group(&event);
    Ok(())
}

fn take_line(recording: &mut Recording, mut value: Value, open: &mut OpenRunStates) -> Result<(), String> {
    let text = |e: serde_json::Error| e.to_string();
    let mut part = |key: &str| value.get_mut(key).map(Value::take);
    let loop_id: LoopId = serde_json::from_value(part("loop").ok_or("it names no loop")?).map_err(text)?;
    let now: Timestamp = serde_json::from_value(part("at").ok_or("it has no time")?).map_err(text)?;
    let setup = part("setup");
    let base: Option<LoopBase> = part("base").map(serde_json::from_value).transpose().map_err(text)?;
    let own: Vec<MessageRef> = read_list(part("messages"))?;
    let other: Vec<MessageRef> = read_list(part("other_messages"))?;
    let events: Vec<Value> = read_list(part("events"))?;
    let light = part("light");

    let at = match recording.position(&loop_id) {
        Some(at) if !(recording.is_announced(at) && setup.is_some()) => at,
        _ => {
            let setup = setup.as_ref().ok_or("it begins no loop and names one that is not there")?;
            recording.begin_run(record_of_setup_value(setup, &loop_id, now)?)
        }
    };
    if base.is_some()
        && let Some(record) = recording.record_mut(at)
    {
        record.base = base;
    }
    recording.put_messages(at, &own, &other);
    for event in events {
        let record = recording.record(at).ok_or("the loop is gone")?;
        let event = read_event(event, record)?;
        recording.take(at, event);
    }
    open.set(recording, at, setup, light);
    Ok(())
}

fn read_list<T: serde::de::DeserializeOwned>(value: Option<Value>) -> Result<Vec<T>, String> {
    value.map_or_else(|| Ok(Vec::new()), |v| serde_json::from_value(v).map_err(|e| e.to_string()))
}
