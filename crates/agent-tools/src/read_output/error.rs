//! Why no part of an output is shown.

use agent_core::ToolError;

use crate::output_store::OutputStoreError;

/// Why no part of an output is shown. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadOutputError {
    /// The store has no such part.
    #[error(transparent)]
    Store(#[from] OutputStoreError),
    /// A limit of 0.
    #[error("limit must be at least 1")]
    NoBytes,
}

impl ReadOutputError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            ReadOutputError::NoBytes => ToolError::InvalidArgs(self.to_string()),
            ReadOutputError::Store(error) => error.into(),
        }
    }
}
