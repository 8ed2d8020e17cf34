//! Builds a session from its rows.

use super::super::journal::{FORM, Lines};
use super::super::json::form2::LineReader;
use super::Sealed;
use crate::model::Session;
use crate::model::stored::Gaps;

/// A place in the rows of a session, and the reason why it is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Damage {
    pub(in crate::store) place: String,
    pub(in crate::store) reason: String,
}

impl Damage {
    fn new(place: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

/// The lines of a session that is being read, in their order.
pub(in crate::store) struct StoredRows<'a> {
    sealed: &'a Sealed,
    bytes: usize,
    reader: LineReader<'a>,
    n: u64,
}

impl<'a> StoredRows<'a> {
    /// Begins to read a session whose rows have this size.
    pub(in crate::store) fn new(id: &'a str, sealed: &'a Sealed, bytes: usize) -> Self {
        Self { sealed, bytes, reader: LineReader::new(id, bytes, Gaps::Refused), n: 0 }
    }

    /// Takes the next line.
    pub(in crate::store) fn line(&mut self, line: &[u8]) -> Result<(), Damage> {
        self.reader.take(line).map_err(|reason| Damage::new(format!("line {}", self.n), reason))?;
        self.n += 1;
        Ok(())
    }

    /// Ends the lines, and begins the records.
    pub(in crate::store) fn records(self) -> Result<StoredRecords, Damage> {
        if !self.reader.is_complete() || self.n != self.sealed.lines {
            return Err(Damage::new(format!("line {}", self.n), self.reader.missing()));
        }
        let recording = self.reader.finish().map_err(|reason| Damage::new("a loop", reason))?;
        let recording = recording.ok_or_else(|| Damage::new("its lines", "there is no session"))?;
        Ok(StoredRecords { lines: Lines::new(recording, FORM, self.bytes), last: self.sealed.records })
    }
}

/// The records of a session that is being read, in their order.
pub(in crate::store) struct StoredRecords {
    lines: Lines,
    /// The number of the last record that was acknowledged.
    last: u64,
}

impl StoredRecords {
    /// Takes the next record; `number` is the one in its row.
    pub(in crate::store) fn record(&mut self, number: i64, line: &[u8]) -> Result<(), Damage> {
        self.lines.take(line).map_err(|reason| Damage::new(format!("record {number}"), reason))
    }

    /// Returns the session with all records.
    pub(in crate::store) fn finish(self) -> Result<Session, Damage> {
        let session = self.lines.finish().session;
        if session.journal_records != self.last {
            let (found, last) = (session.journal_records, self.last);
            let reason = format!("they end with number {found}, and number {last} was acknowledged");
            return Err(Damage::new("its records", reason));
        }
        Ok(session)
    }
}
