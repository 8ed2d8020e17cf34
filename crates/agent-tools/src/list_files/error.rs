//! Why a folder was not listed.

use agent_core::ToolError;

use crate::PathError;
use crate::offload::Halt;

/// Why a folder was not listed. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListFilesError {
    /// The path was refused.
    #[error(transparent)]
    Path(PathError),
    /// There is no such folder.
    #[error("Directory not found: {path}. Check the path and try again.")]
    NotFound {
        /// The path as named.
        path: String,
    },
    /// The glob is wrong.
    #[error("Invalid pattern: {0}")]
    Pattern(#[from] globset::Error),
    /// It took too long.
    #[error("Listing timed out")]
    TimedOut,
    /// The call was cancelled.
    #[error("Operation aborted")]
    Cancelled,
}

impl From<ListFilesError> for ToolError {
    fn from(error: ListFilesError) -> Self {
        match error {
            ListFilesError::Cancelled => Halt::Cancelled.into(),
            ListFilesError::Pattern(_) => Self::InvalidArgs(error.to_string()),
            error => Self::failed(error),
        }
    }
}
