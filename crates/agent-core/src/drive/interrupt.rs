//! The reasons for which the driver interrupts a run.

use super::output::ListenerPanicked;
use crate::journal::JournalError;
use crate::run::Misplaced;

/// The error that stops the driver before the run has ended. Its text is the reason in `Ended::Interrupted`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Interrupt {
    /// The journal could not write an entry.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A listener of the agent panicked.
    #[error(transparent)]
    Listener(#[from] ListenerPanicked),
    /// The run rejected an input of the driver. This is a bug of the driver; the run is interrupted so that it does
    /// not hang.
    #[error(transparent)]
    Misplaced(#[from] Misplaced),
}
