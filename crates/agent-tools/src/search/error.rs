//! Why nothing was searched.

use agent_core::ToolError;

use crate::PathError;
use crate::offload::Halt;

/// Why nothing was searched. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The regular expression is wrong.
    #[error("Invalid regex '{pattern}': {cause}. To search for the text itself, use '{literal}'")]
    Regex {
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        cause: String,
        /// An expression that finds the text itself.
        literal: String,
    },
    /// The glob is wrong.
    #[error("Invalid include pattern: {0}")]
    Include(#[from] globset::Error),
    /// The one file that was named cannot be searched.
    #[error("Search error: {path}: {cause}")]
    File {
        /// The path as named.
        path: String,
        /// What went wrong.
        cause: String,
    },
    /// It took too long.
    #[error("Search timed out")]
    TimedOut,
    /// The call was cancelled.
    #[error("Operation aborted")]
    Cancelled,
}

impl SearchError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            SearchError::Cancelled => Halt::Cancelled.into(),
            SearchError::Regex { .. } | SearchError::Include(_) => ToolError::InvalidArgs(self.to_string()),
            error => ToolError::failed(error),
        }
    }
}
