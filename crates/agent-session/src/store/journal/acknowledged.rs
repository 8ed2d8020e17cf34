//! How many records of a journal were acknowledged.
//!
//! The second line of a journal has a fixed length and is written again after each record, so that a reader can tell a
//! journal that lost records from one whose writer was killed. A record that was acknowledged to a run survives the end of
//! the process; one that was flushed also survives a crash of the machine. `boot` tells whether the machine was started again
//! since, because a crash of the machine may have lost records that were not flushed.

use std::sync::LazyLock;

use serde::Deserialize;

/// The length of the line with its line feed.
pub(crate) const MARK: usize = 128;

/// The numbers of the last records that were acknowledged and flushed; 0 if none was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Acknowledged {
    #[serde(rename = "acknowledged")]
    pub(crate) records: u64,
    pub(crate) flushed: u64,
    /// Identifies the last start of the machine; empty where the system does not tell it.
    boot: String,
}

impl Acknowledged {
    pub(crate) fn new(records: u64, flushed: u64) -> Self {
        Self { records, flushed, boot: BOOT.clone() }
    }

    /// Appends the line with its line feed.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.extend_from_slice(b"{\"acknowledged\":");
        append_number(out, self.records);
        out.extend_from_slice(b",\"flushed\":");
        append_number(out, self.flushed);
        out.extend_from_slice(b",\"boot\":\"");
        out.extend_from_slice(self.boot.as_bytes());
        out.extend_from_slice(b"\"}");
        // It is at most 118 bytes long, so that it always fits.
        out.resize(from + MARK - 1, b' ');
        out.push(b'\n');
    }

    /// Reads the line.
    ///
    /// # Errors
    /// When it is damaged.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        if line.len() + 1 != MARK {
            return Err(format!("it has {} bytes instead of {}", line.len() + 1, MARK));
        }
        serde_json::from_slice(line).map_err(|e| e.to_string())
    }

    /// Returns whether the machine has not been started again since the line was written; `false` where that is not known.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        !self.boot.is_empty() && self.boot == *BOOT
    }

    /// Returns the number of the last record that the journal must have.
    pub(crate) fn required(&self) -> u64 {
        if self.is_of_this_boot() { self.records.max(self.flushed) } else { self.flushed }
    }
}

/// Returns the id of the last start of the machine, at most 40 bytes; empty where the system does not tell it.
pub(crate) fn boot() -> &'static str {
    &BOOT
}

/// The id of the last start of the machine.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().chars().filter(char::is_ascii_graphic).take(40).collect()
});

/// Appends a number in decimal digits.
pub(super) fn append_number(out: &mut Vec<u8>, number: u64) {
    match u8::try_from(number) {
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        // A number has a form as JSON, and a vector takes all bytes.
        _ => drop(serde_json::to_writer(out, &number)),
    }
}
