//! Whole scenarios, many agents, long runs, and what things cost in memory.

#[cfg(test)]
mod long;
#[cfg(test)]
#[path = "../support/long_run.rs"]
mod long_run;
#[cfg(test)]
mod many;
#[cfg(test)]
#[path = "../tools/room.rs"]
mod room;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod sizes;
