//! The journal: one line for each input of a run.
//!
//! Each line has a number without gaps, the name of the input, its new messages and events, and the state of the run after
//! it. A message is written once and afterwards referred to by its position in its loop; a long text is also written once.
//! In a file, the first line contains the session without its loops; in a database, the row of the session does.

mod line;
mod packed;
mod replay;
mod seen;
mod text;

pub(crate) use line::{Line, LineWriter};
#[cfg(feature = "sqlite")]
pub(crate) use replay::Lines;
pub(crate) use replay::{Replayed, replay};
