//! Which journal a saved session contains.

use serde::{Deserialize, Serialize};

use super::super::lines::Crc;

/// The way out of an error about damage.
pub(crate) const SALVAGE: &str = "salvage_session (looptree sessions salvage) returns what can be read";

/// The journal whose records a saved session contains: the checksums of its first record and of the last one that was
/// saved. Each record has the checksum of the one before it, so that a journal with both has all records between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedJournal {
    pub(crate) first: Crc,
    pub(crate) last: Crc,
}

impl SavedJournal {
    /// Returns the journal that begins with this record; `None` if it has no checksum.
    pub(crate) fn begin(line: &[u8]) -> Option<Self> {
        let first = Crc::of(line)?;
        Some(Self { first, last: first })
    }
}
