//! A whole run and the inputs of a journal entry as JSON that names its form.
//!
//! A driver in another process writes a [`Checkpoint`] when it hands a run over, and a [`Recorded`] after each step.
//! Both are read completely or not at all: another form, or a field that this version does not know, is an error.

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AppliedInput, Misplaced, Run};
use crate::event::AgentEvent;
use crate::identity::Timestamp;

/// The form of the JSON of a [`Run`] and of its inputs that this version writes and reads. A version that changes the
/// form in a way that others would misread has a higher number.
pub const FORM: u32 = 1;

/// A whole run with the form in which it is written.
///
/// ```
/// use agent_core::run::{Checkpoint, FormError, ReadError, Run, RunSetup};
/// use agent_core::{History, Timestamp};
///
/// let mut events = Vec::new();
/// let run = Run::start(RunSetup::new("s-1.demo.1"), History::new(), vec!["hello".into()], Timestamp(1), &mut events)?;
/// let written = serde_json::to_string(&Checkpoint::of(&run))?;
/// assert_eq!(Checkpoint::from_json(&written)?.into_run(), run);
///
/// let later = written.replacen("\"form\":1", "\"form\":2", 1);
/// let Err(ReadError::Form(FormError { found, .. })) = Checkpoint::from_json(&later) else { panic!() };
/// assert_eq!(found, Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The form of the run; always [`FORM`].
    pub form: u32,
    /// The run with its setup and its messages.
    pub run: Run,
}

/// What one journal entry replays: the inputs that were applied, with their times and their form.
///
/// ```
/// use agent_core::run::{AppliedInput, Input, Recorded, Run, RunSetup};
/// use agent_core::{History, Timestamp};
///
/// let mut events = Vec::new();
/// let mut run = Run::start(RunSetup::new("s-1.demo.1"), History::new(), vec!["hello".into()], Timestamp(1), &mut events)?;
/// let mut copy = run.clone();
/// run.apply(Timestamp(2), Input::ReplyStarted, &mut events)?;
/// let inputs = vec![AppliedInput { now: Timestamp(2), input: Input::ReplyStarted }];
///
/// let written = serde_json::to_string(&Recorded::new(run.now(), inputs))?;
/// Recorded::from_json(&written)?.replay(&mut copy, &mut events)?;
/// assert_eq!(copy, run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Recorded {
    /// The form of the inputs; always [`FORM`].
    pub form: u32,
    /// The time of the entry: that of its last input, or of the start of the run.
    pub now: Timestamp,
    /// The inputs in the order in which they were applied; empty for the start of the run.
    pub inputs: Vec<AppliedInput>,
}

/// The error of a document in another form than [`FORM`]. No part of the document was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormError {
    /// The form of the document; `None` if it names no form.
    pub found: Option<u32>,
    /// The form that this version reads.
    pub supported: u32,
}

/// The error of a [`Checkpoint`], a [`Recorded`] or a [`GroupCheckpoint`](crate::parallel::GroupCheckpoint) that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The document has another form.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The document is not JSON, lacks a field, or has a field that this version does not know.
    #[error("the run cannot be read, and no part of it was used: {0}")]
    Json(#[from] serde_json::Error),
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let supported = self.supported;
        match self.found {
            Some(found) if found > supported => write!(
                f,
                "a later version wrote this run in form {found}, and this version reads form {supported}; update looptree-core"
            ),
            Some(found) => write!(
                f,
                "an earlier version wrote this run in form {found}, and this version reads form {supported}; \
                 finish the run with the version that wrote it"
            ),
            None => write!(
                f,
                "this run names no form, and this version reads form {supported}; \
                 finish the run with the version that wrote it"
            ),
        }
    }
}

impl std::error::Error for FormError {}

impl Checkpoint {
    /// Returns the run in the current form. Shares its messages with `run`, so it costs O(1) until it is written.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self { form: FORM, run: run.clone() }
    }

    /// Reads a checkpoint from its JSON text.
    ///
    /// # Errors
    /// Returns [`ReadError::Form`] for another form, and [`ReadError::Json`] for a text that is not a checkpoint or has
    /// unknown fields.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        read(text)
    }

    /// Returns the run, which continues where it was written.
    #[must_use]
    pub fn into_run(self) -> Run {
        self.run
    }
}

impl Recorded {
    /// Creates an entry in the current form from inputs that a driver applied. `now` is the time of the last one.
    #[must_use]
    pub fn new(now: Timestamp, inputs: Vec<AppliedInput>) -> Self {
        Self { form: FORM, now, inputs }
    }

    /// Reads an entry from its JSON text.
    ///
    /// # Errors
    /// Returns [`ReadError::Form`] for another form, and [`ReadError::Json`] for a text that is not an entry or has
    /// unknown fields.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        read(text)
    }

    /// Applies the inputs to `run` at their times and appends the events that they cause to `out`.
    ///
    /// # Errors
    /// Returns the error of the first input that the run does not accept. The inputs before it have been applied.
    pub fn replay(self, run: &mut Run, out: &mut Vec<AgentEvent>) -> Result<(), Misplaced> {
        self.inputs.into_iter().try_for_each(|applied| run.apply(applied.now, applied.input, out))
    }
}

/// Lets a document with a form and these fields be read, and refuses every other form before the fields are read.
macro_rules! read_with_form {
    ($document:ident { $($field:ident: $type:ty),+ }) => {
        impl $crate::tagged::Tagged for $document {
            const TAG: &'static str = "form";
            type Tag = u32;

            fn read<'de, D: serde::Deserializer<'de>>(form: u32, fields: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Body {
                    $($field: $type,)+
                }
                $crate::run::form::check(Some(form)).map_err(serde::de::Error::custom)?;
                let Body { $($field),+ } = serde::Deserialize::deserialize(fields)?;
                Ok(Self { form, $($field),+ })
            }

            fn missing() -> String {
                $crate::run::form::FormError { found: None, supported: $crate::run::FORM }.to_string()
            }
        }

        impl<'de> serde::Deserialize<'de> for $document {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::tagged::deserialize(deserializer)
            }
        }
    };
}

pub(crate) use read_with_form;

read_with_form!(Checkpoint { run: Run });
read_with_form!(Recorded { now: Timestamp, inputs: Vec<AppliedInput> });

/// Reads a document. The form of one that cannot be read is the first thing to report about it.
pub(crate) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, ReadError> {
    #[derive(Deserialize)]
    struct Head {
        form: Option<u32>,
    }
    serde_json::from_str(text).map_err(|error| match serde_json::from_str::<Head>(text) {
        Ok(Head { form }) => check(form).map_or_else(ReadError::Form, |()| ReadError::Json(error)),
        Err(_) => ReadError::Json(error),
    })
}

pub(crate) fn check(found: Option<u32>) -> Result<(), FormError> {
    if found == Some(FORM) { Ok(()) } else { Err(FormError { found, supported: FORM }) }
}
