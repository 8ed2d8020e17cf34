//! Errors, the state of an agent, its listeners, and the strict model of tests.

mod failures;
mod listeners;
mod mock;
#[path = "../tools/room.rs"]
mod room;
mod state;
