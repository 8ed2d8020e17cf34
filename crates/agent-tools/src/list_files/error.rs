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

impl ListFilesError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            ListFilesError::Cancelled => Halt::Cancelled.into(),
            ListFilesError::Pattern(_) => ToolError::InvalidArgs(self.to_string()),
            error => ToolError::failed(error),
        }
    }
}
