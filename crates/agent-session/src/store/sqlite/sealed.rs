//! What is known of a session beside its lines and records, as a line with a checksum.

use serde::{Deserialize, Serialize};

use super::super::lines;
use super::super::summary::{SessionSummary, Waits};
use super::Failure;

/// The column `sealed` of a session.
#[derive(Debug, Deserialize)]
pub(super) struct Sealed {
    /// The number of lines.
    pub(super) lines: u64,
    /// The number of the last record that was acknowledged.
    pub(super) records: u64,
    pub(super) summary: SessionSummary,
    /// What waits in the session; `None` if it is not known.
    #[serde(default)]
    pub(super) waits: Option<Waits>,
}

/// The column `sealed` of a session that is written.
#[derive(Debug, Serialize)]
pub(super) struct SealedLine<'a> {
    pub(super) lines: u64,
    pub(super) records: u64,
    pub(super) summary: &'a SessionSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<&'a Waits>,
}

impl SealedLine<'_> {
    pub(super) fn line(&self) -> Result<Vec<u8>, Failure> {
        let mut line = Vec::new();
        lines::seal(&mut line, |out| serde_json::to_writer(out, self)).map_err(Failure::encode)?;
        Ok(line)
    }
}

impl Sealed {
    /// Reads the column of a session.
    ///
    /// # Errors
    /// The reason why it is damaged.
    pub(super) fn read(line: &[u8], id: &str) -> Result<Self, String> {
        let sealed: Self = lines::parse(line)?;
        if sealed.summary.session_id != *id {
            return Err(format!("the row holds session {:?}", sealed.summary.session_id));
        }
        Ok(sealed)
    }
}
