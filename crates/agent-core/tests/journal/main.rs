//! The write-ahead port, and runs that are taken up elsewhere.

#[cfg(test)]
mod keeping;
#[cfg(test)]
mod releasing;
#[cfg(test)]
mod resume;
#[cfg(test)]
#[path = "../tools/room.rs"]
mod room;
#[cfg(test)]
mod write_ahead;
