//! Writes the lines of a journal.

use agent_core::journal::AppliedInput;
use agent_core::run::{RunCheckpoint, RunSetup};
use agent_core::{AgentEvent, LoopId, MessageRef, Timestamp};
use serde::ser::{Error as _, SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use super::packed;
use super::seen::SeenTexts;
use crate::error::SessionError;
use crate::model::event_messages::{PlacedEvent, Places};
use crate::model::{LoopBase, LoopEvent, form1};

/// The content of a line.
#[derive(Debug)]
pub(crate) struct Line<'a> {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) loop_id: &'a LoopId,
    /// The setup of the run, if the session does not have it yet.
    pub(crate) setup: Option<&'a RunSetup>,
    /// The conversation before the loop, for a new loop.
    pub(crate) base: Option<&'a LoopBase>,
    /// The kinds of the record's inputs, for human readers; the other members have the content.
    pub(crate) inputs: &'a [AppliedInput],
    pub(crate) own: &'a [MessageRef],
    pub(crate) other: &'a [MessageRef],
    pub(crate) events: &'a [LoopEvent],
    /// The state of the run; absent when it has ended.
    pub(crate) light: Option<&'a RunCheckpoint>,
}

/// Writes the lines between two saves, which share their long texts.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    texts: SeenTexts,
    /// The buffer of a line, reused for its capacity.
    bytes: Vec<u8>,
}

impl LineWriter {
    /// Returns the line as JSON, without a line feed.
    pub(crate) fn write(&mut self, line: &Line<'_>, places: &Places) -> Result<&[u8], SessionError> {
        self.pack(&Written { line, places })
    }

    /// Returns the line of an event of a group of parallel loops.
    pub(crate) fn write_group(
        &mut self,
        number: u64,
        at: Timestamp,
        event: &AgentEvent,
    ) -> Result<&[u8], SessionError> {
        self.pack(&GroupLine { n: number, at, group: form1::Event(event) })
    }

    fn pack(&mut self, line: &impl Serialize) -> Result<&[u8], SessionError> {
        self.bytes.clear();
        packed::write(&mut self.bytes, line, &mut self.texts)
            .map_err(|source| SessionError::Encode { what: "a record of the journal", source })?;
        Ok(&self.bytes)
    }
}

/// The line of a group's event.
#[derive(Serialize)]
struct GroupLine<'a> {
    n: u64,
    at: Timestamp,
    group: form1::Event<'a>,
}

struct Written<'a> {
    line: &'a Line<'a>,
    places: &'a Places,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = self.line;
        let mut fields = serializer.serialize_struct("Line", 10)?;
        fields.serialize_field("n", &line.number)?;
        fields.serialize_field("at", &line.at)?;
        fields.serialize_field("loop", line.loop_id)?;
        if let Some(setup) = line.setup {
            fields.serialize_field("setup", setup)?;
        }
        if let Some(base) = line.base {
            fields.serialize_field("base", base)?;
        }
        if !line.inputs.is_empty() {
            fields.serialize_field("inputs", &Names(line.inputs))?;
        }
        if !line.own.is_empty() {
            fields.serialize_field("messages", line.own)?;
        }
        if !line.other.is_empty() {
            fields.serialize_field("other_messages", line.other)?;
        }
        if !line.events.is_empty() {
            fields.serialize_field("events", &Events(self))?;
        }
        if let Some(light) = line.light {
            fields.serialize_field("light", light)?;
        }
        fields.end()
    }
}

/// Serializes inputs as their names.
struct Names<'a>(&'a [AppliedInput]);

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|applied| applied.input.name()))
    }
}

struct Events<'a>(&'a Written<'a>);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Written { line, places } = self.0;
        let mut list = serializer.serialize_seq(Some(line.events.len()))?;
        for (n, event) in line.events.iter().enumerate() {
            let later = line.events.iter().skip(n + 1).map(|e| &e.event);
            let placed =
                PlacedEvent::before(&event.event, later, line.loop_id, places).map_err(S::Error::custom)?;
            list.serialize_element(&placed)?;
        }
        list.end()
    }
}

#[cfg(test)]
mod tests;
