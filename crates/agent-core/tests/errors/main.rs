//! Errors, the state of an agent, its listeners, and the strict model of tests.

#[cfg(test)]
mod failures;
#[cfg(test)]
mod listeners;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod reply_limits;
#[cfg(test)]
#[path = "../tools/room.rs"]
mod room;
#[cfg(test)]
mod state;
