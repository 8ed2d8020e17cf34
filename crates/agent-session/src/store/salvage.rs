//! The readable part of a damaged session.

mod partial;

use std::fmt;
use std::path::Path;

use agent_core::{AgentMessage, SessionId};
use serde_json::Value;

use crate::error::SessionError;
use crate::model::stored::MISSING;
use crate::model::{Histories, LoopRecord, Session};

/// The readable part of a session, and a list of what is missing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The part that can be read.
    pub session: Session,
    /// The missing parts; empty if the session is complete.
    pub losses: Vec<Loss>,
}

/// A part of a session that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file or database, and the place in it.
    pub place: String,
    /// The reason why it could not be read. It does not repeat the place.
    pub reason: String,
}

/// Formats the place and the reason in one line.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl Salvaged {
    /// Creates a salvaged session, for stores.
    #[must_use]
    pub fn new(session: Session, losses: Vec<Loss>) -> Self {
        Self { session, losses }
    }

    /// Returns the number of messages that are known to be missing between others. A note of the kind `missing` stands at the
    /// place of each. Messages that are missing at the end of a loop are not known.
    #[must_use]
    pub fn missing_messages(&self) -> usize {
        let notes = self.session.loops.iter().flat_map(|record| &record.messages);
        notes
            .filter(|message| matches!(&***message, AgentMessage::Extension(note) if note.kind == MISSING))
            .count()
    }

    /// Returns the readable part as a session of its own, which a store can save beside the damaged one.
    #[must_use]
    pub fn into_new_session(self, id: SessionId) -> Session {
        let mut session = self.session;
        session.session_id = id;
        session.journal_records = 0;
        if session.agent_id.as_str().is_empty()
            && let Some(first) = session.loops.first()
        {
            session.agent_id = first.agent_id.clone();
        }
        session
    }
}

impl Loss {
    /// Creates a loss with its place, as the store describes it, and its reason.
    #[must_use]
    pub fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }

    /// Creates the loss that an error about a file or a database describes.
    pub(super) fn of(path: &Path, error: &SessionError) -> Self {
        let shown = path.display().to_string();
        match error {
            SessionError::Corrupt { path, place, source } => {
                Self::new(format!("{}: {place}", path.display()), source.to_string())
            }
            other => {
                let text = other.to_string();
                // The texts of errors begin with the path.
                let reason = text.strip_prefix(&shown).unwrap_or(&text).trim_start().to_owned();
                Self::new(shown, reason)
            }
        }
    }
}

/// Closes the open runs of a salvaged session, because a part that they depend on can be missing. A loop that began after
/// more messages than are left begins after those that are left.
pub(super) fn closed(mut session: Session) -> Session {
    for record in &mut session.loops {
        if record.is_open() {
            record.status = crate::LoopStatus::Interrupted;
        }
        record.open_run = None;
    }
    while let Some((at, left)) = begins_after_more(&session) {
        if let Some(base) = session.loops.get_mut(at).and_then(|record| record.base.as_mut()) {
            base.keep = left;
        }
    }
    session
}

/// Returns the first loop that begins after more messages than there are, and how many there are.
fn begins_after_more(session: &Session) -> Option<(usize, usize)> {
    let mut histories = Histories::of(session);
    (0..session.loops.len()).find_map(|at| {
        let keep = session.loops.get(at)?.base.as_ref()?.keep;
        let before = histories.index().before(at).ok()??;
        let left = histories.after(before).ok()?.len();
        (keep > left).then_some((at, left))
    })
}

/// Reads a session from a file that is truncated or partly invalid.
pub(super) fn from_part(bytes: &[u8], path: &str, losses: &mut Vec<Loss>) -> Option<Session> {
    let mut value = partial::read(bytes);
    let loops = match value.as_object_mut()?.shift_remove("loops") {
        Some(Value::Array(loops)) => loops,
        _ => Vec::new(),
    };
    let mut session = Session::from_value(value).ok()?;
    for (at, value) in loops.into_iter().enumerate() {
        match read_loop(value) {
            Ok((record, lost)) => {
                losses.extend(lost.map(|reason| Loss::new(format!("{path}: loops[{at}]"), reason)));
                session.loops.push(record);
            }
            Err(reason) => losses.push(Loss::new(format!("{path}: loops[{at}]"), reason)),
        }
    }
    Some(session)
}

/// Reads a loop with as many of its events as possible, and returns the reason of a loss.
pub(super) fn read_loop(mut value: Value) -> Result<(LoopRecord, Option<String>), String> {
    let error = match LoopRecord::from_value(value.clone()) {
        Ok(record) => return Ok((record, None)),
        Err(error) => error,
    };
    let events = value.get_mut("events").and_then(Value::as_array_mut).map(std::mem::take);
    let events = events.unwrap_or_default();
    let mut good = LoopRecord::from_value(value.clone()).map_err(|e| e.to_string())?;
    // A binary search for the longest valid prefix of the events.
    let (mut low, mut high) = (0, events.len());
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if let Some(map) = value.as_object_mut() {
            map.insert("events".to_owned(), Value::Array(events.get(..middle).unwrap_or_default().to_vec()));
        }
        match LoopRecord::from_value(value.clone()) {
            Ok(record) => {
                good = record;
                low = middle;
            }
            Err(_) => high = middle - 1,
        }
    }
    let lost = format!("{error}; {} of {} events are kept", good.events.len(), events.len());
    Ok((good, Some(lost)))
}
