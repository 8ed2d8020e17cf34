//! What is known of a session beside its lines and records, as a line with a checksum.

use serde::{Deserialize, Serialize};

use super::super::lines;
use super::super::summary::{SessionSummary, Waits};
use crate::error::SessionError;

/// The column `sealed` of a session.
#[derive(Debug, Deserialize)]
pub(in crate::store) struct Sealed {
    /// The number of lines.
    pub(in crate::store) lines: u64,
    /// The number of the last record that was acknowledged.
    pub(in crate::store) records: u64,
    /// The checksum of the last row: of the last record, or of the last line if there is no record after the save.
    #[serde(default)]
    pub(in crate::store) tail: Option<lines::Crc>,
    pub(in crate::store) summary: SessionSummary,
    /// What waits in the session; `None` if it is not known.
    #[serde(default)]
    pub(in crate::store) waits: Option<Waits>,
}

/// The column `sealed` of a session that is written.
#[derive(Debug, Serialize)]
pub(in crate::store) struct SealedLine<'a> {
    pub(in crate::store) lines: u64,
    pub(in crate::store) records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) tail: Option<lines::Crc>,
    pub(in crate::store) summary: &'a SessionSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::store) waits: Option<&'a Waits>,
}

impl SealedLine<'_> {
    pub(in crate::store) fn line(&self) -> Result<Vec<u8>, SessionError> {
        let mut line = Vec::new();
        lines::seal(&mut line, |out| serde_json::to_writer(out, self))
            .map_err(|source| SessionError::Encode { what: "the session", source })?;
        Ok(line)
    }
}

impl Sealed {
    /// Reads the column of a session.
    ///
    /// # Errors
    /// The reason why it is damaged.
    pub(in crate::store) fn read(line: &[u8], id: &str) -> Result<Self, String> {
        let sealed: Self = lines::parse(line)?;
        if sealed.summary.session_id != *id {
            return Err(format!("the row holds session {:?}", sealed.summary.session_id));
        }
        Ok(sealed)
    }
}
