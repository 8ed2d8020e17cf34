//! The journal: one line for each input of a run.
//!
//! The first line says whose it is. Each other line has a number without gaps, the input, the messages and events that it
//! brought, and where the run stands after it. Messages are written when they are new and named by their place in their
//! loop after that; a long text is written once in a journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::run::{Input, LightRun, RunSetup};
use agent_core::{AgentEvent, LoopId, MessageRef, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::files::{flush_directory, owner_only};
use super::read::check_version;
use crate::error::SessionError;
use crate::model::form::{budget_for, spend};
use crate::model::place::{Places, read_event, write_event};
use crate::model::texts::{Resolve, pack, unpack};
use crate::model::{LoopBase, LoopRecord, OpenRun, RecordedEvent, SESSION_VERSION, Session};
use crate::recorder::{Recording, record_of_setup};

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct JournalFile {
    path: PathBuf,
    file: Arc<File>,
    texts: SeenTexts,
    /// Whether its first line is there.
    begun: bool,
}

/// What one line says.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) loop_id: &'a LoopId,
    /// For a loop whose setup the session does not have.
    pub(crate) setup: Option<&'a RunSetup>,
    /// For a loop that is new.
    pub(crate) base: Option<&'a LoopBase>,
    pub(crate) input: Option<&'a Input>,
    pub(crate) own: &'a [MessageRef],
    pub(crate) other: &'a [MessageRef],
    pub(crate) events: &'a [RecordedEvent],
    /// Where the run stands; absent when it has ended.
    pub(crate) light: Option<&'a LightRun>,
}

impl JournalFile {
    /// An empty journal. What is there is dropped: the caller has taken it into the session's file.
    pub(crate) fn start(path: PathBuf) -> Result<Self, SessionError> {
        let mut options = File::options();
        options.create(true).append(true);
        owner_only(&mut options);
        let file = options.open(&path).map_err(SessionError::io(&path, "opened"))?;
        file.set_len(0).map_err(SessionError::io(&path, "emptied"))?;
        flush_directory(&path);
        Ok(Self { path, file: Arc::new(file), texts: SeenTexts::default(), begun: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Makes every later write fail, as a full disk does.
    #[cfg(test)]
    pub(crate) fn break_file(&mut self) {
        if let Ok(file) = File::open(&self.path) {
            self.file = Arc::new(file);
        }
    }

    /// Appends a line, and the first one before it where it is not there yet. `head` is the session without its loops.
    pub(crate) fn append(
        &mut self,
        line: &Line<'_>,
        places: &Places,
        head: &Session,
    ) -> Result<(), SessionError> {
        let value = line.to_value(places).map_err(unencoded)?;
        self.append_value(value, head)
    }

    /// Appends what a group of parallel loops says.
    pub(crate) fn append_group(
        &mut self,
        number: u64,
        at: Timestamp,
        event: &AgentEvent,
        head: &Session,
    ) -> Result<(), SessionError> {
        let event = serde_json::to_value(event).map_err(unencoded)?;
        self.append_value(json!({ "n": number, "at": at, "group": event }), head)
    }

    fn append_value(&mut self, value: Value, head: &Session) -> Result<(), SessionError> {
        let encode = unencoded;
        let mut bytes = Vec::new();
        if !self.begun {
            let head = head.head_value().map_err(encode)?;
            let first = json!({ "journal": SESSION_VERSION, "head": head });
            serde_json::to_writer(&mut bytes, &first).map_err(encode)?;
            bytes.push(b'\n');
        }
        let value = pack(value, &mut |text| self.texts.place_of(text));
        serde_json::to_writer(&mut bytes, &value).map_err(encode)?;
        bytes.push(b'\n');
        (&*self.file).write_all(&bytes).map_err(SessionError::io(&self.path, "written"))?;
        self.begun = true;
        Ok(())
    }

    /// Drops what is in it: the session's file has it now.
    pub(crate) fn clear(&mut self) -> Result<(), SessionError> {
        self.file.set_len(0).map_err(SessionError::io(&self.path, "emptied"))?;
        self.begun = false;
        self.texts = SeenTexts::default();
        Ok(())
    }
}

/// Makes what was written survive the end of the machine.
pub(crate) fn flush(path: &Path, file: &File) -> Result<(), SessionError> {
    file.sync_data().map_err(SessionError::io(path, "flushed to the disk"))
}

fn unencoded(source: serde_json::Error) -> SessionError {
    SessionError::Encode { what: "a record of the journal", source }
}

impl Line<'_> {
    fn to_value(&self, places: &Places) -> Result<Value, serde_json::Error> {
        let mut map = Map::new();
        let mut put = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        put("n", json!(self.number));
        put("at", json!(self.at));
        put("loop", json!(self.loop_id));
        if let Some(setup) = self.setup {
            put("setup", serde_json::to_value(setup)?);
        }
        if let Some(base) = self.base {
            put("base", serde_json::to_value(base)?);
        }
        if let Some(input) = self.input {
            put("input", serde_json::to_value(input)?);
        }
        if !self.own.is_empty() {
            put("messages", serde_json::to_value(self.own)?);
        }
        if !self.other.is_empty() {
            put("other_messages", serde_json::to_value(self.other)?);
        }
        if !self.events.is_empty() {
            let events = self.events.iter().map(|e| write_event(e, places)).collect::<Result<_, _>>()?;
            put("events", Value::Array(events));
        }
        if let Some(light) = self.light {
            put("light", serde_json::to_value(light)?);
        }
        Ok(Value::Object(map))
    }
}

/// Long texts that a journal holds, by hash: two hashes with keys of this process, so that nobody can make two texts meet.
#[derive(Debug, Default)]
struct SeenTexts {
    numbers: BTreeMap<(u64, u64, usize), u64>,
    keys: (RandomState, RandomState),
}

impl SeenTexts {
    /// The text's number as a place, when it is there; else it gets the next one.
    fn place_of(&mut self, text: &str) -> Option<Value> {
        let hash = (self.keys.0.hash_one(text), self.keys.1.hash_one(text), text.len());
        if let Some(number) = self.numbers.get(&hash) {
            return Some(json!(number));
        }
        let number = self.numbers.len() as u64;
        self.numbers.insert(hash, number);
        None
    }
}

/// The long texts of a journal that is being read, in their order.
struct ReadTexts {
    texts: Vec<String>,
    /// For what is kept.
    kept: usize,
    /// For what is dropped with its line: the input, and where the run stood.
    passing: usize,
    is_passing: bool,
}

impl ReadTexts {
    /// Takes the references of a line back.
    fn read_line(&mut self, line: Value, bytes: usize) -> Result<Value, String> {
        let Value::Object(map) = line else { return Err("this is no record".to_owned()) };
        self.passing = budget_for(bytes);
        let mut read = Map::new();
        for (key, value) in map {
            self.is_passing = key == "input" || key == "light";
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

/// A session with what its journal says.
pub(crate) struct Replayed {
    pub(crate) recording: Option<Recording>,
    /// Bytes of a last line that was never finished.
    pub(crate) torn_bytes: usize,
}

/// Takes a journal's lines in.
pub(crate) fn replay(
    path: &Path,
    bytes: &[u8],
    mut recording: Option<Recording>,
    id: &str,
) -> Result<Replayed, SessionError> {
    let mut lines = bytes.split(|b| *b == b'\n');
    // What follows the last line feed was never acknowledged.
    let torn_bytes = lines.next_back().map_or(0, <[u8]>::len);
    let kept = budget_for(bytes.len());
    let mut texts = ReadTexts { texts: Vec::new(), kept, passing: kept, is_passing: false };
    let mut open = OpenRuns::new();
    for (at, line) in lines.enumerate() {
        let place = format!("line {}", at + 1);
        let corrupt = |reason: String| SessionError::corrupt(path, place.clone(), reason);
        let value: Value = serde_json::from_slice(line).map_err(|e| corrupt(e.to_string()))?;
        if at == 0 {
            check_version(path, &place, value.get("journal"))?;
            recording = Some(begin(value, recording, id).map_err(corrupt)?);
            continue;
        }
        let value = texts.read_line(value, bytes.len()).map_err(corrupt)?;
        let Some(recording) = &mut recording else {
            return Err(corrupt("there is no first line".to_owned()));
        };
        let number =
            value.get("n").and_then(Value::as_u64).ok_or_else(|| corrupt("it has no number".to_owned()))?;
        let done = recording.session.journal_records;
        if number <= done {
            // The session was saved between this line and the journal's being emptied.
            continue;
        }
        if number != done + 1 {
            return Err(corrupt(format!("it is record {number}, and record {} is missing", done + 1)));
        }
        match value.get("group") {
            Some(event) => take_group(recording, event).map_err(corrupt)?,
            None => take_line(recording, value, &mut open).map_err(corrupt)?,
        }
        recording.session.journal_records = number;
    }
    if let Some(recording) = &mut recording {
        for (at, (setup, light)) in open {
            if let Some(record) = recording.record_mut(at) {
                record.open_run = Some(open_run(&setup, &light));
            }
        }
    }
    Ok(Replayed { recording, torn_bytes })
}

fn begin(mut first: Value, recording: Option<Recording>, id: &str) -> Result<Recording, String> {
    let head = first.get_mut("head").map(Value::take).ok_or("the first line has no head")?;
    let head = Session::from_value(head).map_err(|e| e.to_string())?;
    if head.session_id != *id {
        return Err(format!("it belongs to session {:?}", head.session_id));
    }
    match recording {
        Some(recording) => Ok(recording),
        None if head.journal_records > 0 => {
            Err("the session's file, which it goes on from, is missing".to_owned())
        }
        None => Ok(Recording::new(head)),
    }
}

/// An event of a group. One of a later version is none that this version could keep in its place.
fn take_group(recording: &mut Recording, event: &Value) -> Result<(), String> {
    let event =
        AgentEvent::deserialize(event).map_err(|e| format!("the event of a group cannot be read: {e}"))?;
    recording.take_group(&event);
    Ok(())
}

/// Where the open loops stand, by place: setup and light form, read when the last line has been taken.
type OpenRuns = BTreeMap<usize, (Value, Value)>;

fn take_line(recording: &mut Recording, mut value: Value, open: &mut OpenRuns) -> Result<(), String> {
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

/// The setup that the session's file has of an open loop.
fn setup_of(record: &LoopRecord) -> Option<Value> {
    match record.open_run.as_ref()? {
        OpenRun::Known { setup, .. } => serde_json::to_value(setup).ok(),
        OpenRun::Foreign(value) => value.get("setup").cloned(),
    }
}

/// A loop from the setup of its run, also where this version cannot read all of it.
fn record_of_setup_value(setup: &Value, loop_id: &LoopId, now: Timestamp) -> Result<LoopRecord, String> {
    if let Ok(setup) = RunSetup::deserialize(setup) {
        return Ok(record_of_setup(&setup, now));
    }
    let id = |key: &str| {
        setup.get(key).and_then(Value::as_str).ok_or_else(|| format!("the loop's setup has no {key}"))
    };
    Ok(LoopRecord::new(loop_id.clone(), id("session_id")?.into(), id("agent_id")?.into(), now))
}

fn read_list<T: serde::de::DeserializeOwned>(value: Option<Value>) -> Result<Vec<T>, String> {
    value.map_or_else(|| Ok(Vec::new()), |v| serde_json::from_value(v).map_err(|e| e.to_string()))
}

/// An open run as a journal has it: from its parts, or as they are where this version cannot read them.
fn open_run(setup: &Value, light: &Value) -> OpenRun {
    let both = json!({ "setup": setup, "light": light });
    serde_json::from_value(both.clone()).unwrap_or(OpenRun::Foreign(both))
}
