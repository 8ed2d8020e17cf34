//! The journal: one line for each input of a run.
//!
//! Each line has a checksum, a number without gaps, the new messages and events of its loop, and the state of the run after
//! it. In a file, three lines are before the records: the session without its loops, how many records were acknowledged
//! ([`Acknowledged`]), and the summary of the session for lists ([`summary_line`]). In a database, the row of the session
//! has the first one.

mod acknowledged;
mod first_line;
mod form1;
mod head;
mod line;
mod replay;
mod saved_journal;
mod state;
mod summary_line;

pub(crate) use acknowledged::{Acknowledged, MARK, boot};
pub(in crate::store) use head::JournalHead;
pub(crate) use line::{Line, LineWriter};
#[cfg(feature = "sqlite")]
pub(crate) use replay::form_of;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use replay::{FORM, Lines};
pub(crate) use replay::{Files, Replayed, Saved, begin, replay};
pub(crate) use saved_journal::{SALVAGE, SavedJournal};
pub(in crate::store) use summary_line::{SUMMARY, SummaryLine};

use summary_line::JournalSummary;
