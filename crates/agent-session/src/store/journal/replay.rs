//! Reads the lines of a journal.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use agent_core::run::RunSetup;
use agent_core::{AgentEvent, LoopId, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::broken::Broken;
use super::super::lines;
use super::Acknowledged;
use super::first_line::{Difference, Head, read_head};
use super::form1::Form1;
use super::saved_journal::{SALVAGE, SavedJournal};
use super::state::OpenRunStates;
use super::summary_line::SUMMARY;
use crate::error::SessionError;
use crate::model::form::budget_for;
use crate::model::recording::{Recording, record_of_setup};
use crate::model::stored::{Counts, Gaps, ReadContent};
use crate::model::{LoopBase, LoopRecord, Session};

/// The form of journals that is written.
pub(crate) const FORM: u32 = 2;

/// The session of a file, which a journal continues.
pub(crate) struct Saved {
    pub(crate) recording: Recording,
    /// The form of the file.
    pub(crate) form: u32,
    /// The digest of the lines of a file of form 2; `None` if it was not read as a whole.
    pub(crate) digest: Option<u32>,
    /// The journal whose records the file contains, if it is known.
    pub(crate) journal: Option<SavedJournal>,
    /// Whether the file tells that there is a journal.
    pub(crate) needs_journal: bool,
}

impl Saved {
    /// Begins with a session of form 1, which tells nothing of its journal.
    pub(crate) fn of_form1(session: Session) -> Self {
        let recording = Recording::new(session);
        Self { recording, form: 1, digest: None, journal: None, needs_journal: false }
    }
}

/// The paths of a session's two files, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Files<'a> {
    pub(crate) journal: &'a Path,
    pub(crate) saved: &'a Path,
}

/// The result of reading a journal.
pub(crate) struct Replayed {
    pub(crate) recording: Option<Recording>,
    /// The size in bytes of an unfinished last line, or of what a crash of the machine left behind the last record.
    pub(crate) torn_bytes: usize,
    /// What could not be read. With [`Gaps::Refused`] this is the first error, and `recording` contains the lines before it.
    pub(crate) broken: Broken,
    /// The journal whose records the session contains.
    pub(crate) records: Option<SavedJournal>,
}

/// Appends the first line: the session without its loops, the digest of the file that the journal continues, and the checksum
/// of the first record.
///
/// # Errors
/// When the session cannot be written as JSON.
pub(crate) fn begin(
    out: &mut Vec<u8>,
    session: &Session,
    file: Option<u32>,
    first: &[u8],
) -> Result<(), serde_json::Error> {
    let mut head = json!({ "journal": FORM, "head": session.head_value()?, "first": lines::Crc::of(first) });
    if let (Some(file), Some(members)) = (file, head.as_object_mut()) {
        members.insert("file".to_owned(), file.into());
    }
    lines::seal(out, |out| serde_json::to_writer(out, &head))?;
    out.push(b'\n');
    Ok(())
}

/// Applies the lines of a journal's file to the saved session.
///
/// # Errors
/// When the file cannot be read, or its first line is that of a later version.
pub(crate) fn replay(
    files: Files<'_>,
    mut file: impl BufRead,
    bytes: usize,
    base: Option<Saved>,
    id: &str,
    gaps: Gaps,
) -> Result<Replayed, SessionError> {
    let path = files.journal;
    let mut line = Vec::new();
    let passed = Cell::new(0);
    let mut next = |line: &mut Vec<u8>| -> Result<bool, SessionError> {
        line.clear();
        let read = file.read_until(b'\n', line).map_err(SessionError::io(path, "read"))?;
        passed.set(passed.get() + read);
        // What follows the last line feed was never acknowledged.
        Ok(line.pop_if(|last| *last == b'\n').is_some())
    };
    let mut replayed = Replayed { recording: None, torn_bytes: 0, broken: Broken::default(), records: None };
    let corrupt = |at: usize, reason: String| SessionError::corrupt(path, format!("line {at}"), reason);
    if !next(&mut line)? {
        // Form 1 created the file before its first line and emptied it with a save. Form 2 does neither.
        replayed.torn_bytes = line.len();
        if base.as_ref().is_none_or(|base| base.form != 1) {
            replayed.broken.push(corrupt(1, "it is not complete".to_owned()));
        }
        replayed.recording = base.map(|base| base.recording);
        return Ok(replayed);
    }
    let head = match read_head(path, &line, id) {
        Ok(head) => head,
        Err(error @ SessionError::UnsupportedVersion { .. }) => return Err(error),
        Err(error) if gaps == Gaps::Refused => {
            replayed.recording = base.map(|base| base.recording);
            replayed.broken.push(error);
            return Ok(replayed);
        }
        Err(error) => {
            replayed.broken.push(error);
            Head {
                session: Session::new(id.into(), "".into(), Timestamp::default()),
                form: FORM,
                file: None,
                first: None,
            }
        }
    };
    let saved_journal = base.as_ref().and_then(|base| base.journal);
    if let Some((difference, reason)) = head.contradicts(files, base.as_ref()) {
        replayed.broken.push(corrupt(1, reason));
        if gaps == Gaps::Refused || difference == Difference::History {
            replayed.recording = base.map(|base| base.recording);
            return Ok(replayed);
        }
    }
    let saved_records = base.as_ref().map_or(0, |base| base.recording.session.journal_records);
    let (form, first) = (head.form, head.first);
    let recording = base.map_or_else(|| Recording::new(head.session), |base| base.recording);
    let mut taken = Lines::new(recording, form, bytes).with_gaps(gaps);
    (taken.order, taken.is_of_one_writer) = (Order::Begin(first), true);
    taken.saved = saved_journal.map(|saved| (saved_records, saved.last));
    let mut at = 1;
    let (mut required, mut must_reach) = (0, 0);
    // Whether the machine has crashed since, which can leave anything behind the records that were flushed.
    let mut has_crashed = false;
    if form == FORM {
        at += 1;
        let whole = next(&mut line)?;
        match Acknowledged::read(&line) {
            Ok(mark) if whole => {
                required = mark.required();
                has_crashed = !mark.is_of_this_boot();
                // A save contains all records. Those that were not flushed can be lost with a crash of the machine.
                must_reach = if mark.is_of_this_boot() { saved_records } else { 0 };
            }
            Ok(_) => replayed.broken.push(corrupt(at, "it is not complete".to_owned())),
            Err(reason) => replayed.broken.push(corrupt(at, reason)),
        }
        at += 1;
        // Nothing depends on the content of the summary.
        let whole = whole && next(&mut line)?;
        if !whole || line.len() + 1 != SUMMARY {
            replayed.broken.push(corrupt(at, "it is not complete".to_owned()));
            if gaps == Gaps::Filled {
                // Where the lines before it are damaged, it can be a record.
                let _ = taken.take(&line);
            }
        }
        if !whole || (gaps == Gaps::Refused && !replayed.broken.is_empty()) {
            replayed.recording = Some(taken.finish());
            return Ok(replayed);
        }
    }
    // The damaged lines since the last intact one, which are reported and have numbers, too.
    let mut damaged = 0;
    loop {
        at += 1;
        if !next(&mut line)? {
            replayed.torn_bytes = line.len();
            break;
        }
        let took = taken.take(&line);
        if let Some(missing) = taken.missing_before.take().filter(|missing| *missing > damaged) {
            replayed.broken.push(corrupt(at, format!("{} records before it are missing", missing - damaged)));
        }
        damaged = if took.is_ok() { 0 } else { damaged + 1 };
        if let Err(reason) = took {
            let is_left = has_crashed
                && gaps == Gaps::Refused
                && taken.recording.session.journal_records >= required
                && !lines::is_text(&line);
            if is_left {
                replayed.torn_bytes = bytes.saturating_sub(passed.get().saturating_sub(line.len() + 1));
                let torn = replayed.torn_bytes;
                tracing::warn!(
                    journal = %path.display(), line = at, torn,
                    "a crash of the machine damaged the journal behind its flushed records; what follows is not used"
                );
                break;
            }
            let reason = match taken.is_of_other_history {
                true => format!(
                    "{reason} {}: they are of two histories of the session; move one of the two away, or {SALVAGE}",
                    files.saved.display()
                ),
                false => reason,
            };
            replayed.broken.push(corrupt(at, reason));
            if gaps == Gaps::Refused || taken.is_of_other_history {
                break;
            }
        }
    }
    let done = taken.recording.session.journal_records;
    if done < required && replayed.broken.is_empty() {
        let reason =
            format!("records {} to {required} were acknowledged and are missing; {SALVAGE}", done + 1);
        replayed.broken.push(corrupt(at, reason));
    }
    if taken.last < must_reach && replayed.broken.is_empty() {
        let (last, file) = (taken.last, files.saved.display());
        let text = format!(
            "it ends with record {last}, and the session's file {file} has record {must_reach}: this is an older copy of the \
             journal, or it lost records; move it away, or {SALVAGE}"
        );
        replayed.broken.push(corrupt(at, text));
    }
    // A crash of the machine can have lost records that the file contains.
    replayed.records = taken.records.filter(|_| taken.last >= saved_records).or(saved_journal);
    replayed.recording = Some(taken.finish());
    Ok(replayed)
}

/// Returns whether a record is the next one; `false` if the session already contains it.
///
/// # Errors
/// When records before it are missing.
pub(super) fn is_next(number: u64, recording: &Recording) -> Result<bool, String> {
    let next = recording.session.journal_records.saturating_add(1);
    if number > next {
        return Err(format!("it is record {number}, and record {next} is missing"));
    }
    // The session was saved after an earlier record, and the journal was not emptied.
    Ok(number == next)
}

/// What the next record of a journal must be.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// The record with this checksum, if it is known.
    Begin(Option<lines::Crc>),
    /// The one that contains this checksum, which is that of the record before it.
    After(lines::Crc),
    /// The line before it is damaged.
    Unknown,
}

/// A session to which lines are applied.
pub(crate) struct Lines {
    recording: Recording,
    form1: Option<Form1>,
    open: OpenRunStates,
    gaps: Gaps,
    /// The remaining bytes that references can expand to.
    budget: usize,
    /// The number of the last record that was read, also if the session already had it.
    last: u64,
    /// The number of records before the last line that no line had.
    missing_before: Option<u64>,
    order: Order,
    /// The number and the checksum of the last record that the session's file contains, if they are known.
    saved: Option<(u64, lines::Crc)>,
    /// Whether the journal has another record of this number.
    is_of_other_history: bool,
    /// The first and the last record that were read.
    records: Option<SavedJournal>,
    /// Whether one writer wrote all lines. The first line of a writer does not contain the checksum of the line before it.
    is_of_one_writer: bool,
}

/// A record of a journal.
#[derive(Deserialize)]
struct ReadLine<'a> {
    n: u64,
    #[serde(default)]
    prev: Option<lines::Crc>,
    at: Timestamp,
    #[serde(default)]
    group: Option<AgentEvent>,
    #[serde(default)]
    setup: Option<Value>,
    #[serde(default)]
    base: Option<LoopBase>,
    #[serde(default)]
    state: Option<Value>,
    #[serde(default)]
    kept: BTreeMap<String, (usize, usize)>,
    #[serde(rename = "loop", default)]
    loop_id: Option<LoopId>,
    #[serde(default)]
    after: Counts,
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    other_messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    events: Vec<&'a RawValue>,
}

impl Lines {
    /// Begins with the saved session; `form` is that of the lines, and `bytes` the size of all of them.
    pub(crate) fn new(recording: Recording, form: u32, bytes: usize) -> Self {
        let form1 = (form < FORM).then(|| Form1::new(bytes));
        Self {
            recording,
            form1,
            open: OpenRunStates::default(),
            gaps: Gaps::Refused,
            budget: budget_for(bytes),
            last: 0,
            missing_before: None,
            order: Order::Unknown,
            saved: None,
            is_of_other_history: false,
            records: None,
            is_of_one_writer: false,
        }
    }

    /// Sets what is done about lines that are missing; by default they are an error.
    pub(crate) fn with_gaps(mut self, gaps: Gaps) -> Self {
        self.gaps = gaps;
        self
    }

    /// Applies a line.
    ///
    /// # Errors
    /// The reason why the line cannot be applied.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let number = match &mut self.form1 {
            Some(form1) => form1.take(line, &mut self.recording, &mut self.open)?,
            None => self.take_sealed(line)?,
        };
        if let Some(number) = number {
            self.recording.session.journal_records = number;
        }
        Ok(())
    }

    fn take_sealed(&mut self, line: &[u8]) -> Result<Option<u64>, String> {
        let order = std::mem::replace(&mut self.order, Order::Unknown);
        let read: ReadLine<'_> = lines::parse(line)?;
        let crc = lines::Crc::of(line);
        let is_another = match order {
            Order::Begin(first) => first.is_some() && first != crc,
            Order::After(last) if self.is_of_one_writer => read.prev != Some(last),
            Order::After(last) => read.prev.is_some_and(|prev| prev != last),
            Order::Unknown => false,
        };
        if is_another {
            return Err(format!("it is record {} of another journal, or the record before it is", read.n));
        }
        self.order = crc.map_or(Order::Unknown, Order::After);
        if let Some((number, saved)) = self.saved
            && number == read.n
            && crc != Some(saved)
        {
            self.is_of_other_history = true;
            return Err(format!("it is another record {number} than that of the session's file"));
        }
        self.records = match (self.records, crc) {
            (Some(records), Some(last)) => Some(SavedJournal { last, ..records }),
            (None, _) => SavedJournal::begin(line),
            (records, None) => records,
        };
        self.last = self.last.max(read.n);
        let done = self.recording.session.journal_records;
        match is_next(read.n, &self.recording) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(reason) if self.gaps == Gaps::Refused => return Err(reason),
            Err(_) => self.missing_before = Some(read.n.saturating_sub(done).saturating_sub(1)),
        }
        let number = read.n;
        match &read.group {
            Some(event) => self.recording.take_group(event),
            None => self.take_loop(read)?,
        }
        Ok(Some(number))
    }

    fn take_loop(&mut self, line: ReadLine<'_>) -> Result<(), String> {
        let loop_id = line.loop_id.ok_or("it names no loop")?;
        let ReadLine { after, messages, other_messages, events, .. } = line;
        let content = ReadContent { after, messages, other_messages, events, time: Some(line.at) };
        let recording = &mut self.recording;
        let at = match recording.position(&loop_id) {
            Some(at) if !(recording.is_announced(at) && line.setup.is_some()) => at,
            _ => match &line.setup {
                Some(setup) => recording.begin_run(record_of_setup_value(setup, &loop_id, line.at)?),
                None if self.gaps == Gaps::Filled => {
                    recording.begin_run(salvaged_loop(&recording.session, &loop_id, line.at))
                }
                None => return Err("it begins no loop and names one that is not there".to_owned()),
            },
        };
        if line.base.is_some()
            && let Some(record) = recording.record_mut(at)
        {
            record.base = line.base;
        }
        content.apply(recording, at, self.gaps, &mut self.budget)?;
        let mut state = line.state;
        if let Some(state) = &mut state {
            self.open.complete(recording, at, state, &line.kept)?;
        }
        self.open.set(recording, at, line.setup, state);
        Ok(())
    }

    /// Returns the session with all lines.
    pub(crate) fn finish(mut self) -> Recording {
        self.open.finish(&mut self.recording);
        self.recording
    }
}

/// Creates the record of a loop whose first line is damaged.
fn salvaged_loop(session: &Session, loop_id: &LoopId, now: Timestamp) -> LoopRecord {
    LoopRecord::new(loop_id.clone(), session.session_id.clone(), session.agent_id.clone(), now)
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
        let form = form_of(records.first().map(AsRef::as_ref));
        let mut lines = Lines::new(Recording::new(self), form, bytes);
        for (at, line) in records.iter().enumerate() {
            lines.take(line.as_ref()).map_err(|reason| {
                SessionError::corrupt(Path::new(id.as_str()), format!("record {}", at + 1), reason)
            })?;
        }
        Ok(lines.finish().session)
    }
}

/// Returns the form of records by the first one. No record of form 2 looks like one of form 1 after the change of a bit.
pub(crate) fn form_of(first: Option<&[u8]>) -> u32 {
    if first.is_some_and(|line| line.starts_with(b"{\"n\":")) { 1 } else { FORM }
}

/// Creates the record of a loop from the setup of its run, also if this version cannot read all of it.
pub(super) fn record_of_setup_value(
    setup: &Value,
    loop_id: &LoopId,
    now: Timestamp,
) -> Result<LoopRecord, String> {
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
