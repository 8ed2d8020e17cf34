//! Writes the lines of a journal.

use std::collections::BTreeMap;

use agent_core::run::{KeptItems, RunCheckpoint, RunSetup};
use agent_core::{AgentEvent, LoopId, Timestamp};
use serde::Serialize;

use super::super::lines::{Crc, seal};
use crate::error::SessionError;
use crate::model::LoopBase;
use crate::model::stored::{Counts, Events, Messages};

/// The content of a line.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) n: u64,
    /// The checksum of the record before it; `None` for the first record of a writer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prev: Option<Crc>,
    pub(crate) at: Timestamp,
    #[serde(rename = "loop")]
    pub(crate) loop_id: &'a LoopId,
    pub(crate) after: Counts,
    #[serde(skip_serializing_if = "Messages::is_empty")]
    pub(crate) messages: Messages<'a>,
    #[serde(skip_serializing_if = "Messages::is_empty")]
    pub(crate) other_messages: Messages<'a>,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(crate) events: Events<'a>,
    /// The setup of the run, if the session does not have it yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setup: Option<&'a RunSetup>,
    /// The conversation before the loop, for a new loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<&'a LoopBase>,
    /// The state of the run; absent when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'a RunCheckpoint>,
    /// The items of the state's lists that are those of the state before.
    #[serde(skip_serializing_if = "Kept::is_empty")]
    pub(crate) kept: Kept,
}

/// Lists of a state, and the numbers of their first and last items that the state before it has.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Kept(BTreeMap<&'static str, (usize, usize)>);

impl Kept {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<KeptItems>> for Kept {
    fn from(items: Vec<KeptItems>) -> Self {
        Self(items.into_iter().map(|kept| (kept.list, (kept.first, kept.last))).collect())
    }
}

/// The line of an event of a group of parallel loops.
#[derive(Serialize)]
struct GroupLine<'a> {
    n: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<Crc>,
    at: Timestamp,
    group: &'a AgentEvent,
}

/// Writes lines into a buffer that is reused for its capacity.
#[derive(Debug, Default)]
pub(crate) struct LineWriter {
    bytes: Vec<u8>,
    last: Option<Crc>,
}

impl LineWriter {
    /// Returns the checksum of the last line, which the next line contains.
    pub(crate) fn last(&self) -> Option<Crc> {
        self.last
    }

    /// Returns the line, without a line feed.
    pub(crate) fn write(&mut self, line: &Line<'_>) -> Result<&[u8], SessionError> {
        self.sealed(line)
    }

    /// Returns the line of an event of a group of parallel loops.
    pub(crate) fn write_group(
        &mut self,
        n: u64,
        at: Timestamp,
        group: &AgentEvent,
    ) -> Result<&[u8], SessionError> {
        self.sealed(&GroupLine { n, prev: self.last, at, group })
    }

    fn sealed(&mut self, line: &impl Serialize) -> Result<&[u8], SessionError> {
        self.bytes.clear();
        seal(&mut self.bytes, |out| serde_json::to_writer(out, line))
            .map_err(|source| SessionError::Encode { what: "a record of the journal", source })?;
        self.last = Crc::of(&self.bytes);
        Ok(&self.bytes)
    }
}
