//! Why a file was not written.

use std::io;

use crate::PathError;

/// Why a file was not written. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteFileError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Writing failed; the old file, if any, is untouched.
    #[error("Cannot write {path}: {source}")]
    Write {
        /// The path as named.
        path: String,
        /// The operating system's words.
        source: io::Error,
    },
}
