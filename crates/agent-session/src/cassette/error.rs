//! Errors of reading a cassette, and the divergence of a replay.

use std::fmt;

use super::form::CASSETTE_VERSION;

/// The reason why a text cannot be read as a cassette.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The text is not JSON, is truncated, or does not have the form of a cassette.
    #[error("this is no cassette of a run: {0}")]
    Unreadable(#[source] serde_json::Error),
    /// The cassette was recorded by a later version.
    #[error(
        "the cassette has version {found}, and this program reads up to version {CASSETTE_VERSION}; use the version that made it ({made_by})"
    )]
    Later {
        /// The version of the file.
        found: u32,
        /// The program and version that wrote the file.
        made_by: String,
    },
    /// A call refers to an entry of the cassette's tables that does not exist.
    #[error("the cassette is damaged: {what} refers to {to}, which is not in it; record the run again")]
    Dangling {
        /// The part of the cassette that is incomplete.
        what: String,
        /// The entry that does not exist in the cassette.
        to: String,
    },
    /// The text is larger than [`MAX_CASSETTE_BYTES`](super::MAX_CASSETTE_BYTES).
    #[error("the cassette has {size} bytes, more than the {most} that are read")]
    TooLarge {
        /// The size of the text in bytes.
        size: usize,
        /// The maximum size in bytes.
        most: usize,
    },
}

/// The first difference between a replay and its cassette.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Divergence {
    /// The call that differs, for example "model call 3" or "call 2 of the tool bash".
    pub at: String,
    /// The field of the call that differs, as a JSON pointer; empty for the call as a whole.
    pub field: String,
    /// The difference: lines of the cassette begin with `-`, lines of the replay with `+`, lines of both with two blanks.
    pub diff: String,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the replay differs from the cassette at {}", self.at)?;
        if !self.field.is_empty() {
            write!(f, ", in {}", self.field)?;
        }
        write!(f, ":\n{}\nundo the change, or record the run again", self.diff)
    }
}

impl std::error::Error for Divergence {}
