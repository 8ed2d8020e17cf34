//! Why a run is cut off.

use super::output::ListenerPanicked;
use crate::journal::JournalError;
use crate::run::Misplaced;

/// What stops the driver before the run has ended.
#[derive(Debug)]
pub(crate) enum Halt {
    Journal(JournalError),
    Listener(ListenerPanicked),
    /// An input that the run did not take. It is a bug of the driver; the run is cut off rather than left hanging.
    Misplaced(Misplaced),
}

impl From<JournalError> for Halt {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<ListenerPanicked> for Halt {
    fn from(panic: ListenerPanicked) -> Self {
        Self::Listener(panic)
    }
}

impl From<Misplaced> for Halt {
    fn from(misplaced: Misplaced) -> Self {
        Self::Misplaced(misplaced)
    }
}

impl Halt {
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Journal(error) => error.to_string(),
            Self::Listener(ListenerPanicked(text)) => format!("a listener panicked: {text}"),
            Self::Misplaced(misplaced) => misplaced.to_string(),
        }
    }
}
