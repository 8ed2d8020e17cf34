//! Retries and overflows, as a run takes them.

#[cfg(test)]
mod log;
#[cfg(test)]
mod overflow;
#[cfg(test)]
mod refused_files;
#[cfg(test)]
mod retries;
#[cfg(test)]
#[path = "../tools/room.rs"]
mod room;
#[cfg(test)]
mod routes;
