//! Writes the file of a session.

use std::io::Write;
use std::path::Path;

use agent_core::{AgentEvent, LoopId};
use serde::Serialize;
use serde_json::Value;

use super::super::super::SessionSummary;
use super::super::super::journal::SavedJournal;
use super::super::super::lines::{Digest, seal};
use super::super::super::summary::Waits;
use super::begin::first_line;
use super::{END, FORM};
use crate::error::SessionError;
use crate::model::event_messages::Places;
use crate::model::stored::{Content, Counts, Events, Messages, write_head};
use crate::model::{LoopRecord, Session};

/// The bytes that are collected before they are written.
const BUFFER: usize = 256 << 10;

#[derive(Serialize)]
struct SessionLine<'a> {
    n: usize,
    form: u32,
    session: &'a Value,
    summary: &'a SessionSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<&'a Waits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<SavedJournal>,
    lines: usize,
}

#[derive(Serialize)]
struct LoopLine<'a> {
    n: usize,
    record: &'a Value,
}

#[derive(Serialize)]
struct ContentLine<'a> {
    n: usize,
    #[serde(rename = "loop")]
    loop_id: &'a LoopId,
    after: Counts,
    #[serde(skip_serializing_if = "Messages::is_empty")]
    messages: Messages<'a>,
    #[serde(skip_serializing_if = "Messages::is_empty")]
    other_messages: Messages<'a>,
    #[serde(skip_serializing_if = "Events::is_empty")]
    events: Events<'a>,
}

/// The last line, which tells that all lines were written together.
#[derive(Serialize)]
struct EndLine {
    n: usize,
    digest: u32,
}

/// Writes the file of a session, and returns the digest of its lines.
///
/// # Errors
/// When the session cannot be written as JSON, or the file cannot be written.
pub(in super::super) fn write(
    session: &Session,
    journal: Option<SavedJournal>,
    path: &Path,
    file: &mut impl Write,
) -> Result<u32, SessionError> {
    let mut bytes = first_line();
    let mut separator: &[u8] = b"";
    let mut digest = Digest::default();
    write_lines(session, journal, |line| {
        bytes.extend_from_slice(separator);
        bytes.extend_from_slice(line);
        digest.add(line);
        separator = b",\n";
        if bytes.len() < BUFFER {
            return Ok(());
        }
        file.write_all(&bytes).map_err(SessionError::io(path, "written"))?;
        bytes.clear();
        Ok(())
    })?;
    bytes.push(b'\n');
    bytes.extend_from_slice(END);
    file.write_all(&bytes).map_err(SessionError::io(path, "written"))?;
    Ok(digest.finish())
}

/// Passes each line of a session to `put`, with its checksum and without a line feed. `journal` is the one whose records the
/// session contains.
///
/// # Errors
/// When the session cannot be written as JSON, and the errors of `put`.
pub(in crate::store) fn write_lines(
    session: &Session,
    journal: Option<SavedJournal>,
    put: impl FnMut(&[u8]) -> Result<(), SessionError>,
) -> Result<(), SessionError> {
    let encode = |source| SessionError::Encode { what: "the session", source };
    let parts: Vec<Vec<Counts>> = session.loops.iter().map(parts_of).collect();
    let lines = 2 + session.loops.len() + parts.iter().map(Vec::len).sum::<usize>();
    let mut out = Lines { put, bytes: Vec::new(), n: 0, digest: Digest::default() };
    let (head, summary) = (session.head_value().map_err(encode)?, SessionSummary::of(session));
    let waits = Waits::of(session);
    out.line(|n| SessionLine {
        n,
        form: FORM,
        session: &head,
        summary: &summary,
        waits: waits.as_ref(),
        journal,
        lines,
    })?;
    let mut groups = Groups::default();
    for (record, parts) in session.loops.iter().zip(parts) {
        let mut head = write_head(record).map_err(encode)?;
        groups.share(record, &mut head);
        out.line(|n| LoopLine { n, record: &head })?;
        let places = Places::of(record);
        let mut after = Counts::default();
        for to in parts {
            let Content { loop_id, after: from, messages, other_messages, events } =
                Content::between(record, &places, 0, after, to, None);
            out.line(|n| ContentLine { n, loop_id, after: from, messages, other_messages, events })?;
            after = to;
        }
    }
    let digest = out.digest.clone().finish();
    out.line(|n| EndLine { n, digest })
}

/// Returns where the lines of a loop end: after each turn, and after the last event. A loop whose events do not name all
/// of its messages has one line.
fn parts_of(record: &LoopRecord) -> Vec<Counts> {
    let all = Counts::of(record);
    let mut parts = Vec::new();
    let (mut own, mut other) = (0, 0);
    for (at, event) in record.events.iter().enumerate() {
        match event.known() {
            Some(AgentEvent::MessageEnd { superseded: false, .. }) => own += 1,
            Some(AgentEvent::MessageEnd { .. }) => other += 1,
            Some(AgentEvent::CompactionEnded(ended)) => {
                other += ended.splices.iter().map(|splice| splice.messages.len()).sum::<usize>();
            }
            Some(AgentEvent::TurnEnd { .. }) => {
                parts.push(Counts(own.min(all.0), other.min(all.1), at + 1));
            }
            _ => {}
        }
    }
    // A salvaged loop has messages without events, so that the events do not tell which messages their lines need.
    if (own, other) != (all.0, all.1) {
        parts.clear();
    }
    if parts.last() != Some(&all) && all != Counts::default() {
        parts.push(all);
    }
    parts
}

/// The lists of groups, which only the first branch of a group contains.
#[derive(Default)]
struct Groups<'a> {
    /// The first branch of each group.
    first: std::collections::BTreeMap<&'a LoopId, &'a LoopRecord>,
}

impl<'a> Groups<'a> {
    /// Replaces the list of a group's loops by the id of the loop that contains it.
    fn share(&mut self, record: &'a LoopRecord, head: &mut Value) {
        let (Some(member), Some(group)) = (&record.group, &record.parallel_group) else { return };
        let first = *self.first.entry(&member.group_id).or_insert(record);
        let same =
            first.parallel_group.as_ref().is_some_and(|known| known.all_loop_ids == group.all_loop_ids);
        if same
            && !std::ptr::eq(first, record)
            && let Some(list) = head.pointer_mut("/parallel_group/all_loop_ids")
        {
            *list = Value::from(first.loop_id.as_str());
        }
    }
}

/// The lines that are being written.
struct Lines<P> {
    put: P,
    /// The buffer of a line, reused for its capacity.
    bytes: Vec<u8>,
    n: usize,
    digest: Digest,
}

impl<P: FnMut(&[u8]) -> Result<(), SessionError>> Lines<P> {
    fn line<T: Serialize>(&mut self, line: impl FnOnce(usize) -> T) -> Result<(), SessionError> {
        let line = line(self.n);
        self.n += 1;
        self.bytes.clear();
        seal(&mut self.bytes, |out| serde_json::to_writer(out, &line))
            .map_err(|source| SessionError::Encode { what: "the session", source })?;
        self.digest.add(&self.bytes);
        (self.put)(&self.bytes)
    }
}
