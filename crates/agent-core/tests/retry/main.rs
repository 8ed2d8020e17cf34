//! Retries and overflows, as a run takes them.

mod log;
mod overflow;
mod retries;
#[path = "../tools/room.rs"]
mod room;
