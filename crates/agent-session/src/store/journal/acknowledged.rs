//! How many records of a journal were acknowledged.
//!
//! The second line of a journal has a fixed length and is written again after each record, so that a reader can tell a
//! journal that lost records from one whose writer was killed. A record that was acknowledged to a run survives the end of
//! the process; one that was flushed also survives a crash of the machine. `boot` tells whether the machine was started again
//! since, because a crash of the machine may have lost records that were not flushed.

use std::io::Write as _;
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

    /// Returns the line with its line feed.
    pub(crate) fn line(&self) -> [u8; MARK] {
        let Self { records, flushed, boot } = self;
        let mut line = [b' '; MARK];
        // It is at most 118 bytes long, so that it always fits.
        let _ = write!(&mut line[..], r#"{{"acknowledged":{records},"flushed":{flushed},"boot":"{boot}"}}"#);
        if let Some(last) = line.last_mut() {
            *last = b'\n';
        }
        line
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

    /// Returns the number of the last record that the journal must have.
    pub(crate) fn required(&self) -> u64 {
        let same_boot = !self.boot.is_empty() && self.boot == *BOOT;
        if same_boot { self.records.max(self.flushed) } else { self.flushed }
    }
}

/// The id of the last start of the machine, at most 40 bytes.
static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().chars().filter(char::is_ascii_graphic).take(40).collect()
});
