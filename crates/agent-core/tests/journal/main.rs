//! The write-ahead port, and runs that are taken up elsewhere.

mod keeping;
mod resume;
#[path = "../tools/room.rs"]
mod room;
mod write_ahead;
