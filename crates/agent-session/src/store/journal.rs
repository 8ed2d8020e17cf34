//! The journal: one line for each input of a run.
//!
//! Each line has a checksum, a number without gaps, the new messages and events of its loop, and the state of the run after
//! it. In a file, two lines are before the records: the session without its loops, and how many records were acknowledged
//! ([`Acknowledged`]). In a database, the row of the session has the first one.

mod acknowledged;
mod form1;
mod line;
mod replay;
mod state;

pub(crate) use acknowledged::{Acknowledged, MARK};
pub(crate) use line::{Line, LineWriter};
#[cfg(feature = "sqlite")]
pub(crate) use replay::{FORM, Lines, form_of};
pub(crate) use replay::{Replayed, Saved, begin, replay};
