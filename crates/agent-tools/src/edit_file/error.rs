//! The errors of `edit_file`.

use std::io;

use crate::PathError;

/// The reason why a file was not edited. The texts are written for the model. The file is unchanged in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditFileError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file could not be read.
    #[error("Cannot read {path}: {cause}. Use write_file to create new files.")]
    Read {
        /// The path in the arguments.
        path: String,
        /// The reason for the failure.
        cause: String,
    },
    /// The file is too large.
    #[error("{path} is too large to edit ({bytes} bytes, max {max}); use bash with a stream editor", max = super::MAX_FILE_BYTES)]
    TooLarge {
        /// The path in the arguments.
        path: String,
        /// The size of the file in bytes.
        bytes: u64,
    },
    /// The file could not be written.
    #[error("Cannot write {path}: {source}")]
    Write {
        /// The path in the arguments.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The arguments contain no replacement.
    #[error("nothing to edit; give old_text and new_text, or a list of edits")]
    NoEdits,
    /// The arguments contain both `edits` and `old_text` or `new_text`.
    #[error("give either old_text and new_text, or edits, not both")]
    BothForms,
    /// The arguments contain more than [`MAX_EDITS`](super::MAX_EDITS) replacements.
    #[error("too many edits in one call (max {max}); split them", max = super::MAX_EDITS)]
    TooManyEdits,
    /// The text to replace is empty.
    #[error("{}old_text is empty; give the text to replace, or use write_file to write the whole file", which(*.edit))]
    EmptyOldText {
        /// The number of the edit, counted from 1, if the call has several.
        edit: Option<usize>,
    },
    /// The text to replace is not in the file.
    #[error("{}old_text not found in {path}.{hint}", which(*.edit))]
    NotFound {
        /// The path in the arguments.
        path: String,
        /// The number of the edit, counted from 1, if the call has several.
        edit: Option<usize>,
        /// Similar lines of the file, or advice.
        hint: String,
    },
    /// The text to replace occurs in the file more than once.
    #[error(
        "{}old_text matches {count} locations in {path}. Include more surrounding context to make the match unique.",
        which(*.edit)
    )]
    Ambiguous {
        /// The path in the arguments.
        path: String,
        /// The number of the edit, counted from 1, if the call has several.
        edit: Option<usize>,
        /// The number of occurrences.
        count: usize,
    },
    /// Two edits replace overlapping parts of the file.
    #[error("edits {first} and {second} overlap in {path}; make one edit of them")]
    Overlap {
        /// The path in the arguments.
        path: String,
        /// The number of the first edit, counted from 1.
        first: usize,
        /// The number of the second edit, counted from 1.
        second: usize,
    },
}

fn which(edit: Option<usize>) -> String {
    edit.map(|number| format!("edit {number}: ")).unwrap_or_default()
}
