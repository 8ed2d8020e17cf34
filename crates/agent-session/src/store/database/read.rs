//! Builds a session from its rows.

use super::super::journal::{FORM, Lines, SALVAGE};
use super::super::json::form2::LineReader;
use super::super::lines::Crc;
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
    /// The checksum of the last line.
    tail: Option<Crc>,
}

impl<'a> StoredRows<'a> {
    /// Begins to read a session whose rows have this size.
    pub(in crate::store) fn new(id: &'a str, sealed: &'a Sealed, bytes: usize) -> Self {
        Self { sealed, bytes, reader: LineReader::new(id, bytes, Gaps::Refused), n: 0, tail: None }
    }

    /// Takes the next line.
    pub(in crate::store) fn line(&mut self, line: &[u8]) -> Result<(), Damage> {
        self.reader.take(line).map_err(|reason| Damage::new(format!("line {}", self.n), reason))?;
        self.n += 1;
        self.tail = Crc::of(line);
        Ok(())
    }

    /// Ends the lines, and begins the records.
    pub(in crate::store) fn records(self) -> Result<StoredRecords, Damage> {
        if !self.reader.is_complete() || self.n != self.sealed.lines {
            return Err(Damage::new(
                format!("line {}", self.n),
                format!("{}; {SALVAGE}", self.reader.missing()),
            ));
        }
        let recording = self.reader.finish().map_err(|reason| Damage::new("a loop", reason))?;
        let recording = recording.ok_or_else(|| Damage::new("its lines", "there is no session"))?;
        let (last, wanted) = (self.sealed.records, self.sealed.tail);
        Ok(StoredRecords { lines: Lines::new(recording, FORM, self.bytes), last, tail: self.tail, wanted })
    }
}

/// The records of a session that is being read, in their order.
pub(in crate::store) struct StoredRecords {
    lines: Lines,
    /// The number of the last record that was acknowledged.
    last: u64,
    /// The checksum of the last row, and the one that the summary has.
    tail: Option<Crc>,
    wanted: Option<Crc>,
}

impl StoredRecords {
    /// Takes the next record; `number` is the one in its row.
    pub(in crate::store) fn record(&mut self, number: i64, line: &[u8]) -> Result<(), Damage> {
        self.lines.take(line).map_err(|reason| Damage::new(format!("record {number}"), reason))?;
        self.tail = Crc::of(line);
        Ok(())
    }

    /// Returns the session with all records.
    pub(in crate::store) fn finish(self) -> Result<Session, Damage> {
        let (last, tail, wanted) = (self.last, self.tail, self.wanted);
        let session = self.lines.finish().session;
        if session.journal_records != last {
            let found = session.journal_records;
            let reason =
                format!("they end with number {found}, and number {last} was acknowledged; {SALVAGE}");
            return Err(Damage::new("its records", reason));
        }
        if wanted.is_some() && wanted != tail {
            let reason =
                format!("it is that of another state of the session than its lines and records; {SALVAGE}");
            return Err(Damage::new("its summary", reason));
        }
        Ok(session)
    }
}
