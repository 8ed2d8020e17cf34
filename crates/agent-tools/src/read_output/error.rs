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

impl From<ReadOutputError> for ToolError {
    fn from(error: ReadOutputError) -> Self {
        match error {
            ReadOutputError::NoBytes => Self::InvalidArgs(error.to_string()),
            ReadOutputError::Store(error) => error.into(),
        }
    }
}
