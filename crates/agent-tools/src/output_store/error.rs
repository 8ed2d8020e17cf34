//! The errors of the output store.

use std::io;

/// The reason why an output cannot be stored or read. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputStoreError {
    /// The output does not exist, or has been removed.
    #[error(
        "there is no output \"{key}\"{}; the key stands in the result of the call whose output was cut. Old outputs make room for new ones, and none is kept when the program ends: if this one is gone, make the call again, with its output in a file or filtered",
        named(newest)
    )]
    Unknown {
        /// The key as it was given.
        key: String,
        /// The keys of the newest outputs.
        newest: Vec<String>,
    },
    /// The offset is after the end of the output.
    #[error("offset {offset} is past the end of output {key}, which has {kept} bytes")]
    PastEnd {
        /// The key of the output.
        key: String,
        /// The offset that was requested.
        offset: i64,
        /// The number of bytes of the output.
        kept: u64,
    },
    /// Reading or writing the disk failed.
    #[error("the output could not be kept or read: {0}")]
    Disk(#[source] io::Error),
}

fn named(keys: &[String]) -> String {
    if keys.is_empty() {
        " (none is kept)".to_owned()
    } else {
        format!(" (the newest are {})", keys.join(", "))
    }
}

impl OutputStoreError {
    pub(super) fn no_runtime() -> Self {
        Self::Disk(io::Error::other("no tokio runtime is running here; call this tool from inside one"))
    }
}
