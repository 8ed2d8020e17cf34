//! The errors of `apply_patch`.

use std::io;

use crate::PathError;

/// The reason why a patch was not applied. The texts are written for the model. No file has changed, except for
/// [`Incomplete`](Self::Incomplete).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// A path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The patch does not have the expected form.
    #[error("line {line} of the patch: {cause}")]
    Syntax {
        /// The number of the line in the patch, counted from 1.
        line: usize,
        /// What is wrong, and what is expected.
        cause: String,
    },
    /// The patch is too large.
    #[error("the patch is too large ({bytes} bytes, max {max}); split it", max = super::MAX_PATCH_BYTES)]
    TooLarge {
        /// The size of the patch in bytes.
        bytes: usize,
    },
    /// The patch has more than [`MAX_FILES`](super::MAX_FILES) sections.
    #[error("the patch has more than {max} files; split it", max = super::MAX_FILES)]
    TooManyFiles,
    /// Two sections of the patch concern the same file.
    #[error("{path} occurs in the patch more than once; put all of its changes into one section")]
    Twice {
        /// The path in the patch.
        path: String,
    },
    /// One of the files would be a folder of another.
    #[error("{path} and {other} cannot both be files of the patch, because one is a folder of the other")]
    Nested {
        /// The path in the patch.
        path: String,
        /// The path of the other file.
        other: String,
    },
    /// A file that the patch creates exists already.
    #[error("{path} exists already; use `*** Update File:` to change it, or another path")]
    Exists {
        /// The path in the patch.
        path: String,
    },
    /// A file could not be read.
    #[error("Cannot read {path}: {cause}. Use `*** Add File:` to create new files.")]
    Read {
        /// The path in the patch.
        path: String,
        /// The reason for the failure.
        cause: String,
    },
    /// A file is too large.
    #[error("{path} is too large to patch ({bytes} bytes, max {max}); use bash with a stream editor", max = super::MAX_FILE_BYTES)]
    FileTooLarge {
        /// The path in the patch.
        path: String,
        /// The size of the file in bytes.
        bytes: u64,
    },
    /// The files of the patch are too large together.
    #[error("the files of the patch have more than {max} bytes together; split it", max = super::MAX_TOTAL_BYTES)]
    TotalTooLarge,
    /// The hunks take too many comparisons of lines.
    #[error(
        "the hunks of {path} take too long to find, because its lines repeat too often; put fewer into one patch, or write the file as a whole"
    )]
    TooMuchWork {
        /// The path in the patch.
        path: String,
    },
    /// The call was cancelled before a file was changed.
    #[error("Operation aborted")]
    Cancelled,
    /// The line of an `@@` is not in the file.
    #[error("hunk {hunk} of {path}: the line `{context}` of `@@` was not found{after}.{hint}", after = behind(*.after))]
    ContextNotFound {
        /// The path in the patch.
        path: String,
        /// The number of the hunk in its file, counted from 1.
        hunk: usize,
        /// The line that was searched for.
        context: String,
        /// The line of the file after which it was searched for; 0 for the whole file.
        after: usize,
        /// Similar lines of the file, or advice.
        hint: String,
    },
    /// The lines of a hunk are not in the file.
    #[error("hunk {hunk} of {path}: these lines were not found{after}:{wanted}{hint}", after = behind(*.after))]
    NotFound {
        /// The path in the patch.
        path: String,
        /// The number of the hunk in its file, counted from 1.
        hunk: usize,
        /// The lines that were searched for.
        wanted: String,
        /// The line of the file after which they were searched for; 0 for the whole file.
        after: usize,
        /// The nearest place of the file, or advice.
        hint: String,
    },
    /// The lines of a hunk are in the file more than once.
    #[error(
        "hunk {hunk} of {path} matches {count} places (lines {lines}); add context lines, or an `@@` line that names the function or class"
    )]
    Ambiguous {
        /// The path in the patch.
        path: String,
        /// The number of the hunk in its file, counted from 1.
        hunk: usize,
        /// The number of places.
        count: usize,
        /// The numbers of their first lines, at most ten.
        lines: String,
    },
    /// A section changes nothing.
    #[error("the section of {path} changes nothing; leave it out, or correct its lines")]
    Unchanged {
        /// The path in the patch.
        path: String,
    },
    /// A file could not be written.
    #[error("Cannot write {path}: {source}. No file was changed.")]
    Write {
        /// The path in the patch.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The operating system refused to rename or remove a file after others had been changed.
    #[error(
        "Cannot change {path}: {source}. These files were changed before: {changed}. Read them before you continue."
    )]
    Incomplete {
        /// The path in the patch.
        path: String,
        /// The paths that were changed.
        changed: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

fn behind(line: usize) -> String {
    if line == 0 { String::new() } else { format!(" after line {line}, where the part before ends") }
}
