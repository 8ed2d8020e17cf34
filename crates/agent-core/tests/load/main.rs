//! Whole scenarios, many agents, long runs, and what things cost in memory.

mod long;
mod many;
#[path = "../tools/room.rs"]
mod room;
mod scenarios;
mod sizes;
