//! Reads the lines of a journal.

use std::collections::BTreeMap;
use std::path::Path;

use agent_core::run::RunSetup;
use agent_core::{LoopId, MessageRef, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::version::check_version;
use crate::error::SessionError;
use crate::model::event_messages::read_event;
use crate::model::form::{budget_for, spend};
use crate::model::recording::{Recording, record_of_setup};
use crate::model::texts::{Resolve, unpack};
use crate::model::{LoopBase, LoopRecord, OpenRun, Session, form1};

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

/// The result of reading a journal.
pub(crate) struct Replayed {
    pub(crate) recording: Option<Recording>,
    /// The size of an unfinished last line in bytes.
    pub(crate) torn_bytes: usize,
    /// The error of the first line that could not be read. `recording` contains the lines before it.
    pub(crate) broken: Option<SessionError>,
}

/// Applies the lines of a journal's file, up to the first that cannot be read.
pub(crate) fn replay(path: &Path, bytes: &[u8], base: Option<Recording>, id: &str) -> Replayed {
    let mut lines = bytes.split(|b| *b == b'\n');
    // What follows the last line feed was never acknowledged.
    let torn_bytes = lines.next_back().map_or(0, <[u8]>::len);
    let Some(first) = lines.next() else { return Replayed { recording: base, torn_bytes, broken: None } };
    let head = match read_head(path, first, id) {
        Ok(head) => head,
        Err(error) => return Replayed { recording: base, torn_bytes, broken: Some(error) },
    };
    if base.is_none() && head.journal_records > 0 {
        let reason = "the session's file, which this journal continues, is missing";
        let broken = Some(SessionError::corrupt(path, "line 1", reason));
        return Replayed { recording: None, torn_bytes, broken };
    }
    let mut taken = Lines::new(base.unwrap_or_else(|| Recording::new(head)), bytes.len());
    let mut broken = None;
    for (at, line) in lines.enumerate() {
        if let Err(reason) = taken.take(line) {
            broken = Some(SessionError::corrupt(path, format!("line {}", at + 2), reason));
            break;
        }
    }
    Replayed { recording: Some(taken.finish()), torn_bytes, broken }
}

/// Reads the first line of a journal's file: the session without its loops.
fn read_head(path: &Path, line: &[u8], id: &str) -> Result<Session, SessionError> {
    let corrupt = |reason: String| SessionError::corrupt(path, "line 1", reason);
    let mut value: Value = serde_json::from_slice(line).map_err(|e| corrupt(e.to_string()))?;
    check_version(path, "line 1", value.get("journal"))?;
    let head = value.get_mut("head").map(Value::take);
    let head = head.ok_or_else(|| corrupt("the first line has no head".to_owned()))?;
    let head = Session::from_value(head).map_err(|e| corrupt(e.to_string()))?;
    if head.session_id != *id {
        return Err(corrupt(format!("it belongs to session {:?}", head.session_id)));
    }
    Ok(head)
}

/// A session to which lines are applied.
pub(crate) struct Lines {
    recording: Recording,
    texts: ReadTexts,
    open: OpenRunStates,
    bytes: usize,
}

impl Lines {
    /// Begins with the saved session; `bytes` is the size of all lines.
    pub(crate) fn new(recording: Recording, bytes: usize) -> Self {
        let kept = budget_for(bytes);
        let texts = ReadTexts { texts: Vec::new(), kept, passing: kept, is_passing: false };
        Self { recording, texts, open: OpenRunStates::new(), bytes }
    }

    /// Applies a line.
    ///
    /// # Errors
    /// The reason why the line cannot be applied.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let value: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let value = self.texts.read_line(value, self.bytes)?;
        let number = value.get("n").and_then(Value::as_u64).ok_or("it has no number")?;
        let done = self.recording.session.journal_records;
        if number <= done {
            // The session was saved after this line, and the journal was not emptied.
            return Ok(());
        }
        if number != done.saturating_add(1) {
            return Err(format!("it is record {number}, and record {} is missing", done.saturating_add(1)));
        }
        match value.get("group") {
            Some(event) => take_group(&mut self.recording, event)?,
            None => take_line(&mut self.recording, value, &mut self.open)?,
        }
        self.recording.session.journal_records = number;
        Ok(())
    }

    /// Returns the session with all lines.
    pub(crate) fn finish(mut self) -> Recording {
        for (at, (setup, light)) in self.open {
            if let Some(record) = self.recording.record_mut(at) {
                record.open_run = Some(open_run(&setup, &light));
            }
        }
        self.recording
    }
}

impl Session {
    /// Rebuilds a session from its saved form and the records since that save, in their order. Where a session was never
    /// saved, begin with the [`head`](crate::store::SessionRecord::head) of its first record.
    ///
    /// # Errors
    /// [`SessionError::Corrupt`] when a record cannot be read or one is missing; it names the record.
    pub fn with_records<L: AsRef<[u8]>>(
        self,
        records: impl IntoIterator<Item = L>,
    ) -> Result<Self, SessionError> {
        let id = self.session_id.clone();
        let records: Vec<L> = records.into_iter().collect();
        let bytes = records.iter().map(|line| line.as_ref().len()).sum();
        let mut lines = Lines::new(Recording::new(self), bytes);
        for (at, line) in records.iter().enumerate() {
            lines.take(line.as_ref()).map_err(|reason| {
                SessionError::corrupt(Path::new(id.as_str()), format!("record {}", at + 1), reason)
            })?;
        }
        Ok(lines.finish().session)
    }
}

/// Applies an event of a group. An unknown event is an error, because it has no place in a record.
fn take_group(recording: &mut Recording, event: &Value) -> Result<(), String> {
    let event = form1::read(event).map_err(|e| format!("the event of a group cannot be read: {e}"))?;
    recording.take_group(&event);
    Ok(())
}

/// The setup and the state of each open loop, by position. They are read after the last line.
type OpenRunStates = BTreeMap<usize, (Value, Value)>;

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
    match light {
        Some(light) => {
            let known = open.remove(&at).map(|(setup, _)| setup);
            let setup = setup.or(known).or_else(|| setup_of(recording.record(at)?)).unwrap_or_default();
            open.insert(at, (setup, light));
        }
        None => {
            open.remove(&at);
            if let Some(record) = recording.record_mut(at) {
                record.open_run = None;
            }
        }
    }
    Ok(())
}

/// Returns the setup of an open loop from the saved session.
fn setup_of(record: &LoopRecord) -> Option<Value> {
    match record.open_run.as_ref()? {
        OpenRun::Known { setup, .. } => serde_json::to_value(setup).ok(),
        OpenRun::Foreign(value) => value.get("setup").cloned(),
    }
}

/// Creates the record of a loop from the setup of its run, also if this version cannot read all of it.
fn record_of_setup_value(setup: &Value, loop_id: &LoopId, now: Timestamp) -> Result<LoopRecord, String> {
    if let Ok(setup) = RunSetup::deserialize(setup) {
        return Ok(record_of_setup(&setup, now));
    }
    let id = |key: &str| {
        setup.get(key).and_then(Value::as_str).ok_or_else(|| format!("the loop's setup has no {key}"))
    };
    let mut record = LoopRecord::new(loop_id.clone(), id("session_id")?.into(), id("agent_id")?.into(), now);
    record.parent_loop_id = setup.get("parent_loop_id").and_then(Value::as_str).map(LoopId::from);
    Ok(record)
}

fn read_list<T: serde::de::DeserializeOwned>(value: Option<Value>) -> Result<Vec<T>, String> {
    value.map_or_else(|| Ok(Vec::new()), |v| serde_json::from_value(v).map_err(|e| e.to_string()))
}

/// Creates an open run from its parts, which are preserved unchanged if this version cannot read them.
fn open_run(setup: &Value, light: &Value) -> OpenRun {
    let both = json!({ "setup": setup, "light": light });
    serde_json::from_value(both.clone()).unwrap_or(OpenRun::Foreign(both))
}
