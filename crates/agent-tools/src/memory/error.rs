//! The errors of `memory`.

use crate::PathError;

/// The reason why a command of `memory` failed. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path does not begin with `/memories`.
    #[error("{path} is not in /memories; use a path such as /memories/notes.md")]
    Root {
        /// The path in the arguments.
        path: String,
    },
    /// An argument that the command needs is missing.
    #[error("the command {command} needs {argument}")]
    Missing {
        /// The name of the command.
        command: &'static str,
        /// The name of the argument.
        argument: &'static str,
    },
    /// The path does not exist.
    #[error("The path {path} does not exist. Please provide a valid path.")]
    NotFound {
        /// The path in the arguments.
        path: String,
    },
    /// The path exists already.
    #[error("{path} exists already; change it with str_replace or insert, or delete it first")]
    Exists {
        /// The path in the arguments.
        path: String,
    },
    /// The command is not possible for the folder `/memories` itself.
    #[error("/memories itself cannot be deleted or renamed; name a path in it")]
    WholeMemory,
    /// The file or its new content is too large.
    #[error("{path} would have {bytes} bytes (max {max}); shorten it, or use several files", max = super::MAX_FILE_BYTES)]
    TooLarge {
        /// The path in the arguments.
        path: String,
        /// The size in bytes.
        bytes: u64,
    },
    /// The file is not UTF-8.
    #[error("{path} is not a text file")]
    NotText {
        /// The path in the arguments.
        path: String,
    },
    /// The memory has as many files as it can have.
    #[error("the memory has {max} files and folders, which is the limit; delete some first", max = super::MAX_FILES)]
    Full,
    /// The path has too many parts.
    #[error("{path} is nested too deeply (max {max} levels below /memories); use a shorter path", max = super::MAX_DEPTH)]
    TooDeep {
        /// The path in the arguments.
        path: String,
    },
    /// The text to replace is not in the file exactly once.
    #[error("old_str occurs {count} times in {path}; it must occur exactly once")]
    Occurrences {
        /// The path in the arguments.
        path: String,
        /// The number of occurrences.
        count: usize,
    },
    /// The line does not exist.
    #[error("{path} has {lines} lines; give a line from 0 to {lines}")]
    Line {
        /// The path in the arguments.
        path: String,
        /// The number of lines.
        lines: usize,
    },
    /// The operating system refused an operation.
    #[error("Cannot change {path}: {source}")]
    Change {
        /// The path in the arguments.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
}
