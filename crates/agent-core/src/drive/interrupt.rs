//! The reasons for which the driver interrupts a run.

use super::output::ListenerPanicked;
use crate::journal::JournalError;
use crate::run::Misplaced;

/// The error that stops the driver before the run has ended.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// The journal could not write an entry.
    Journal(JournalError),
    /// A listener of the agent panicked.
    Listener(ListenerPanicked),
    /// The run rejected an input of the driver. This is a bug of the driver; the run is interrupted so that it does
    /// not hang.
    Misplaced(Misplaced),
}

impl From<JournalError> for Interrupt {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<ListenerPanicked> for Interrupt {
    fn from(panic: ListenerPanicked) -> Self {
        Self::Listener(panic)
    }
}

impl From<Misplaced> for Interrupt {
    fn from(misplaced: Misplaced) -> Self {
        Self::Misplaced(misplaced)
    }
}

impl Interrupt {
    /// Returns the reason as a text for `Ended::Interrupted`.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Journal(error) => error.to_string(),
            Self::Listener(ListenerPanicked(text)) => format!("a listener panicked: {text}"),
            Self::Misplaced(misplaced) => misplaced.to_string(),
        }
    }
}
