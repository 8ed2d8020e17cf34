//! Why a file was not edited.

use std::io;

use agent_core::ToolError;

use crate::PathError;

/// Why a file was not edited. The texts are written for the model; the file is untouched in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditFileError {
    /// The path was refused.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Reading failed.
    #[error("Cannot read {path}: {cause}. Use write_file to create new files.")]
    Read {
        /// The path as named.
        path: String,
        /// What went wrong.
        cause: String,
    },
    /// The file is too large.
    #[error("{path} is too large to edit ({bytes} bytes, max {max}); use bash with a stream editor", max = super::MAX_FILE_BYTES)]
    TooLarge {
        /// The path as named.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// Writing failed.
    #[error("Cannot write {path}: {source}")]
    Write {
        /// The path as named.
        path: String,
        /// The operating system's words.
        source: io::Error,
    },
    /// Nothing to do was said.
    #[error("nothing to edit; give old_text and new_text, or a list of edits")]
    NoEdits,
    /// Both forms were used.
    #[error("give either old_text and new_text, or edits, not both")]
    BothForms,
    /// More than [`MAX_EDITS`](super::MAX_EDITS).
    #[error("too many edits in one call (max {max}); split them", max = super::MAX_EDITS)]
    TooManyEdits,
    /// There is nothing to look for.
    #[error("{}old_text is empty; give the text to replace, or use write_file to write the whole file", which(*.edit))]
    EmptyOldText {
        /// The number of the edit, when there are several.
        edit: Option<usize>,
    },
    /// It is not in the file (REQ-101).
    #[error("{}old_text not found in {path}.{hint}", which(*.edit))]
    NotFound {
        /// The path as named.
        path: String,
        /// The number of the edit, when there are several.
        edit: Option<usize>,
        /// What may have been meant, or what to try.
        hint: String,
    },
    /// It is in the file more than once (REQ-102).
    #[error(
        "{}old_text matches {count} locations in {path}. Include more surrounding context to make the match unique.",
        which(*.edit)
    )]
    Ambiguous {
        /// The path as named.
        path: String,
        /// The number of the edit, when there are several.
        edit: Option<usize>,
        /// How often it is there.
        count: usize,
    },
    /// Two edits touch the same text.
    #[error("edits {first} and {second} overlap in {path}; make one edit of them")]
    Overlap {
        /// The path as named.
        path: String,
        /// The number of the one.
        first: usize,
        /// The number of the other.
        second: usize,
    },
}

fn which(edit: Option<usize>) -> String {
    edit.map(|number| format!("edit {number}: ")).unwrap_or_default()
}

impl EditFileError {
    /// Converts the error into the one that the loop receives.
    pub(crate) fn into_tool_error(self) -> ToolError {
        match self {
            EditFileError::NoEdits | EditFileError::BothForms | EditFileError::TooManyEdits => {
                ToolError::InvalidArgs(self.to_string())
            }
            error => ToolError::failed(error),
        }
    }
}
