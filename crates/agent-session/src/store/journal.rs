//! The journal: one line for each input of a run.
//!
//! Each line has a number without gaps, the name of the input, the messages and events that it brought, and where the run stands after
//! it. Messages are written when they are new and named by their place in their loop after that; a long text is written
//! once. In a file the first line names its session; in a database the session's row does.

mod line;
mod packed;
mod replay;
mod seen;
mod text;

pub(crate) use line::{Line, LineWriter};
#[cfg(feature = "sqlite")]
pub(crate) use replay::Lines;
pub(crate) use replay::{Replayed, replay};
