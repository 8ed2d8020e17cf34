//! The size that a session may reach, so that every session that was written can be read.

use agent_core::journal::JournalWarning;

use super::SessionRecord;

/// The size in bytes that a store reads of a session, and whether a writer has warned of it.
#[derive(Debug)]
pub(super) struct SizeLimit {
    limit: u64,
    bytes: u64,
    is_warned: bool,
}

/// A loop begins only while this part of the limit is left: one eighth, for its records.
const ROOM_FOR_LOOP: u64 = 8;

/// The writer warns when less than this part of the limit is left: one quarter.
const ROOM_WITHOUT_WARNING: u64 = 4;

impl SizeLimit {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, bytes: 0, is_warned: false }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Sets the size of the session without a record that is about to be written.
    pub(super) fn set(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Returns whether the session can be read with this record, and adds its size.
    pub(super) fn allows(&mut self, record: &SessionRecord<'_>) -> bool {
        let bytes = self.bytes.saturating_add(record.line.len() as u64);
        let room = if record.begins_loop() { self.limit / ROOM_FOR_LOOP } else { 0 };
        let allowed = bytes.saturating_add(room) <= self.limit;
        if allowed {
            self.bytes = bytes;
        }
        allowed
    }

    /// Returns a warning when the session approaches the limit, once.
    pub(super) fn warning(&mut self) -> Option<JournalWarning> {
        let is_near = self.bytes.saturating_add(self.limit / ROOM_WITHOUT_WARNING) > self.limit;
        if !is_near || self.is_warned {
            return None;
        }
        self.is_warned = true;
        Some(JournalWarning::NearlyFull { bytes: self.bytes, limit: self.limit })
    }
}
