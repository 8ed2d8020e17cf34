//! What can be read of a damaged session.

mod partial;

use serde_json::Value;

use crate::model::{LoopRecord, Session};

/// What can be read of a session, and what cannot.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The part that can be read.
    pub session: Session,
    /// What is missing in it; empty where the session is whole.
    pub losses: Vec<Loss>,
}

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file and the place in it.
    pub place: String,
    /// What is wrong there.
    pub reason: String,
}

impl Salvaged {
    /// The readable part of a session and what is missing in it.
    #[must_use]
    pub fn new(session: Session, losses: Vec<Loss>) -> Self {
        Self { session, losses }
    }
}

impl Loss {
    /// A loss at a place, which the store names, and its reason.
    #[must_use]
    pub fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

/// An open run of a salvaged session is not continued, because a part that it depends on may be missing.
pub(super) fn closed(mut session: Session) -> Session {
    for record in &mut session.loops {
        if record.is_open() {
            record.status = crate::LoopStatus::Interrupted;
        }
        record.open_run = None;
    }
    session
}

/// A session from a file that breaks off, or of which a part is wrong.
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

/// A loop with as many of its events as can be read.
pub(super) fn read_loop(mut value: Value) -> Result<(LoopRecord, Option<String>), String> {
    let error = match LoopRecord::from_value(value.clone()) {
        Ok(record) => return Ok((record, None)),
        Err(error) => error,
    };
    let events = value.get_mut("events").and_then(Value::as_array_mut).map(std::mem::take);
    let events = events.unwrap_or_default();
    let mut good = LoopRecord::from_value(value.clone()).map_err(|e| e.to_string())?;
    // The longest good beginning, found by halving: a loop with fewer events is good where one with more is.
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
