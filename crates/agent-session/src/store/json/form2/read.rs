//! Reads the file of a session.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use agent_core::LoopId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::super::broken::Broken;
use super::super::super::journal::SavedJournal;
use super::super::super::lines;
use super::END;
use super::begin::needs_journal;
use crate::error::SessionError;
use crate::model::form::budget_for;
use crate::model::recording::Recording;
use crate::model::stored::{Counts, Gaps, ReadContent, ReadHead, read_head};
use crate::model::{LoopRecord, Session};

/// A line of the file.
#[derive(Deserialize)]
struct ReadLine<'a> {
    n: usize,
    #[serde(default)]
    form: Option<u32>,
    #[serde(default)]
    session: Option<Value>,
    #[serde(default)]
    journal: Option<SavedJournal>,
    #[serde(default)]
    lines: usize,
    #[serde(default)]
    record: Option<Value>,
    #[serde(rename = "loop", default)]
    loop_id: Option<LoopId>,
    #[serde(default)]
    digest: Option<u32>,
    #[serde(default)]
    after: Counts,
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    other_messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
}

/// What was read of a file.
pub(in super::super) struct ReadFile {
    /// `None` when not even the first record could be read.
    pub(in super::super) recording: Option<Recording>,
    /// What could not be read. With [`Gaps::Refused`] this is the first error.
    pub(in super::super) broken: Broken,
    /// The form that the file's second line names; `None` if that line is damaged.
    pub(in super::super) form: Option<u32>,
    pub(in super::super) digest: u32,
    /// The journal whose records the file contains.
    pub(in super::super) journal: Option<SavedJournal>,
    /// Whether the first line tells that the session has a journal.
    pub(in super::super) needs_journal: bool,
}

/// Reads a session from a file of `size` bytes.
///
/// # Errors
/// When the file cannot be read.
pub(in super::super) fn read(
    path: &Path,
    mut file: impl BufRead,
    size: usize,
    id: &str,
    gaps: Gaps,
) -> Result<ReadFile, SessionError> {
    let mut reader = LineReader::new(id, size, gaps);
    let mut broken = Broken::default();
    let mut line = Vec::new();
    let mut at = 0;
    let (mut is_ended, mut has_mark) = (false, false);
    // The damaged lines since the last intact one, which are reported and have numbers, too.
    let mut damaged = 0;
    loop {
        line.clear();
        at += 1;
        if file.read_until(b'\n', &mut line).map_err(SessionError::io(path, "read"))? == 0 {
            break;
        }
        let read = match &line[..] {
            _ if is_ended => Err("there is more after the last line".to_owned()),
            first if at == 1 => match needs_journal(first) {
                Some(needs) => {
                    has_mark = needs;
                    Ok(())
                }
                None => Err("this is not the first line of a session".to_owned()),
            },
            END if reader.is_complete() || gaps == Gaps::Filled => {
                is_ended = true;
                Ok(())
            }
            other => match other.strip_suffix(b"\n") {
                Some(line) => reader.take(line.strip_suffix(b",").unwrap_or(line)),
                None => Err("it is not complete".to_owned()),
            },
        };
        let missing = reader.missing_before.take().filter(|missing| missing.len() > damaged);
        if let Some(missing) = missing {
            let text =
                format!("{} records before record {} are missing", missing.len() - damaged, missing.end);
            broken.push(SessionError::corrupt(path, format!("line {at}"), text));
        }
        damaged = if read.is_ok() { 0 } else { damaged + 1 };
        if let Err(reason) = read {
            broken.push(SessionError::corrupt(path, format!("line {at}"), reason));
            if gaps == Gaps::Refused {
                break;
            }
        }
    }
    if gaps == Gaps::Refused && !broken.is_empty() {
        let (form, journal) = (reader.form, reader.journal);
        return Ok(ReadFile { recording: None, broken, form, digest: 0, journal, needs_journal: has_mark });
    }
    if broken.is_empty() && !(is_ended && reader.is_complete()) {
        broken.push(SessionError::corrupt(path, format!("line {at}"), reader.missing()));
    }
    let (form, journal, digest) = (reader.form, reader.journal, reader.digest.clone().finish());
    let recording = reader.finish().unwrap_or_else(|reason| {
        broken.push(SessionError::corrupt(path, "a loop", reason));
        None
    });
    Ok(ReadFile { recording, broken, form, digest, journal, needs_journal: has_mark })
}

/// The lines of a session that are being read, in order.
pub(in crate::store) struct LineReader<'a> {
    id: &'a str,
    gaps: Gaps,
    recording: Option<Recording>,
    /// The members of each loop that are set after its last event.
    heads: BTreeMap<usize, ReadHead>,
    /// The form that the line of the session names.
    form: Option<u32>,
    /// The journal whose records the session contains.
    journal: Option<SavedJournal>,
    /// The number of the next line.
    next: usize,
    /// The number of all lines.
    wanted: Option<usize>,
    /// The remaining bytes that references can expand to.
    budget: usize,
    digest: lines::Digest,
    /// The numbers before the last line that no line had.
    missing_before: Option<std::ops::Range<usize>>,
    /// Whether a line was missing or damaged.
    has_gap: bool,
}

impl<'a> LineReader<'a> {
    /// Begins with no line; `size` is that of all lines in bytes.
    pub(in crate::store) fn new(id: &'a str, size: usize, gaps: Gaps) -> Self {
        Self {
            id,
            gaps,
            recording: None,
            heads: BTreeMap::new(),
            form: None,
            journal: None,
            next: 0,
            wanted: None,
            budget: budget_for(size),
            digest: lines::Digest::default(),
            missing_before: None,
            has_gap: false,
        }
    }

    /// Returns whether all lines were read.
    pub(in crate::store) fn is_complete(&self) -> bool {
        self.wanted == Some(self.next)
    }

    /// Returns the reason why the lines are not complete.
    pub(in crate::store) fn missing(&self) -> String {
        match self.wanted {
            Some(wanted) => format!("it ends after {} of {wanted} records", self.next),
            None => "it ends before its first record".to_owned(),
        }
    }

    /// Applies a line, without the comma and the line feed that follow it in a file.
    ///
    /// # Errors
    /// The reason why the line cannot be applied.
    pub(in crate::store) fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let before = self.digest.clone();
        self.digest.add(line);
        let line: ReadLine<'_> = lines::parse(line)?;
        if line.n != self.next && (self.gaps == Gaps::Refused || line.n < self.next) {
            return Err(format!("it is record {}, and record {} is missing", line.n, self.next));
        }
        self.missing_before = (line.n > self.next).then_some(self.next..line.n);
        self.has_gap |= self.missing_before.is_some();
        self.next = line.n + 1;
        if let Some(digest) = line.digest {
            // What is missing is reported already.
            let is_same = self.has_gap || before.finish() == digest;
            return is_same
                .then_some(())
                .ok_or_else(|| "lines before it are not those that were written with it".to_owned());
        }
        if let Some(session) = line.session {
            let session = Session::from_value(session).map_err(|e| e.to_string())?;
            if session.session_id != *self.id {
                return Err(format!("the file holds session {:?}", session.session_id));
            }
            self.wanted = Some(line.lines);
            (self.form, self.journal) = (line.form, line.journal);
            self.recording = Some(Recording::new(session));
            return Ok(());
        }
        let recording = match (&mut self.recording, self.gaps) {
            (Some(recording), _) => recording,
            (None, Gaps::Refused) => return Err("it is before the session".to_owned()),
            // The line of the session is damaged.
            (slot, Gaps::Filled) => {
                slot.insert(Recording::new(Session::new(self.id.into(), "".into(), Default::default())))
            }
        };
        if let Some(record) = line.record {
            let (record, head) = read_head(&shared_group(recording, record)?)?;
            if recording.session.agent_id.as_str().is_empty() {
                recording.session.agent_id = record.agent_id.clone();
                recording.session.created_at = record.started_at;
            }
            let at = recording.restore(record);
            self.heads.insert(at, head);
            return Ok(());
        }
        let loop_id = line.loop_id.ok_or("it has neither a session nor a loop")?;
        let at = match recording.position(&loop_id) {
            Some(at) => at,
            None if self.gaps == Gaps::Refused => return Err(format!("there is no loop {loop_id}")),
            None => {
                let session = &recording.session;
                let (session_id, agent) = (session.session_id.clone(), session.agent_id.clone());
                recording.restore(LoopRecord::new(loop_id, session_id, agent, session.created_at))
            }
        };
        let ReadLine { after, messages, other_messages, events, .. } = line;
        ReadContent { after, messages, other_messages, events, time: None }.apply(
            recording,
            at,
            self.gaps,
            &mut self.budget,
        )
    }

    /// Returns the session; `None` when not even its first record could be read.
    ///
    /// # Errors
    /// The reason why a loop cannot be completed.
    pub(in crate::store) fn finish(self) -> Result<Option<Recording>, String> {
        let Some(mut recording) = self.recording else { return Ok(None) };
        for (at, head) in self.heads {
            if let Some(record) = recording.record_mut(at) {
                head.finish(record)?;
            }
        }
        // The loops have their last status only now.
        Ok(Some(Recording::new(recording.session)))
    }
}

/// Inserts the list of a group's loops, which another branch contains.
fn shared_group(recording: &Recording, mut head: Value) -> Result<Value, String> {
    if let Some(list) = head.pointer_mut("/parallel_group/all_loop_ids")
        && let Some(first) = list.as_str()
    {
        let first = recording.session.get_loop(first).and_then(|first| first.parallel_group.as_ref());
        let first = first.ok_or("its group is that of a loop that is not there")?;
        *list = serde_json::to_value(&first.all_loop_ids).map_err(|e| e.to_string())?;
    }
    Ok(head)
}
