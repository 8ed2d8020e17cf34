//! The file of a session: JSON of which each line has a checksum.
//!
//! ```json
//! {"version":2,"lines":[
//! {"crc":"7d3a90b2","n":0,"form":2,"session":{"session_id":"s-1"},"summary":{"loops":1},"lines":3},
//! {"crc":"0f6a1c55","n":1,"record":{"loop_id":"s-1.a.1"}},
//! {"crc":"c90e21d4","n":2,"loop":"s-1.a.1","after":[0,0,0],"messages":[],"events":[]}
//! ]}
//! ```
//!
//! A line has the session without its loops and a summary for lists, or a loop without its content, or content of a loop:
//! mostly one turn. A database has the same lines as rows.

mod head;
mod read;
mod search;
mod write;

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

/// The first and the last line.
const BEGIN: &[u8] = b"{\"version\":2,\"lines\":[\n";
const END: &[u8] = b"]}\n";

/// Returns whether a file that begins with these bytes has this form.
pub(super) fn is_begun_by(bytes: &[u8]) -> bool {
    bytes.starts_with(BEGIN)
}

#[cfg(test)]
mod tests;
