//! The file of a session: JSON of which each line has a checksum.
//!
//! ```json
//! {"version":2,"journal":"none                                    ","lines":[
//! {"crc":"7d3a90b2","n":0,"form":2,"session":{"session_id":"s-1"},"summary":{"loops":1},"lines":3},
//! {"crc":"0f6a1c55","n":1,"record":{"loop_id":"s-1.a.1"}},
//! {"crc":"c90e21d4","n":2,"loop":"s-1.a.1","after":[0,0,0],"messages":[],"events":[]}
//! ]}
//! ```
//!
//! The first line tells whether the session has a journal, and is changed in place when the journal begins and when it is
//! flushed. A line after it has the session without its loops and a summary for lists, or a loop without its content, or content of a loop:
//! mostly one turn. A database has the same lines as rows.

mod begin;
mod head;
mod read;
mod search;
mod write;

pub(super) use begin::{JournalMark, is_begun_by, mark_journal};
pub(super) use head::{FileHead, read_head};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(in crate::store) use read::LineReader;
pub(super) use read::read;
pub(super) use search::Search;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(in crate::store) use search::search_line;
pub(super) use write::write;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(in crate::store) use write::write_lines;

/// The number of this form, which the first line contains.
pub(super) const FORM: u32 = 2;

/// The last line.
const END: &[u8] = b"]}\n";

#[cfg(test)]
mod tests;
