//! Why a file was not read.

use std::io;

use agent_core::ToolError;

use crate::PathError;
use crate::offload::Halt;

/// Why a file was not read. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFileError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Reading failed.
    #[error("Cannot read {path}: {source}")]
    Read {
        /// The path as named.
        path: String,
        /// The operating system's words.
        source: io::Error,
    },
    /// A text file that is too large to be given whole.
    #[error("File too large ({bytes} bytes, max {max}). Use offset/limit for partial reads.")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// A picture that is too large.
    #[error("Image too large ({megabytes}MB, max {}MB)", super::MAX_IMAGE_BYTES / (1024 * 1024))]
    ImageTooLarge {
        /// Its size in whole MiB, rounded up.
        megabytes: u64,
    },
    /// Neither text nor a picture.
    #[error(
        "Cannot read {path}: it is a binary file ({bytes} bytes), neither text nor a known kind of picture"
    )]
    Binary {
        /// The path as named.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// The file ends before the first line asked for.
    #[error("offset {offset} is past the end of {path}, which has {}", crate::text::lines(*.lines))]
    PastEnd {
        /// The path as named.
        path: String,
        /// The first line asked for.
        offset: u64,
        /// How many there are.
        lines: usize,
    },
    /// A limit of 0.
    #[error("limit must be at least 1")]
    NoLines,
    /// The call was cancelled.
    #[error("Operation aborted")]
    Cancelled,
}

impl ReadFileError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            ReadFileError::Cancelled => Halt::Cancelled.into(),
            ReadFileError::NoLines => ToolError::InvalidArgs(self.to_string()),
            error => ToolError::failed(error),
        }
    }
}
