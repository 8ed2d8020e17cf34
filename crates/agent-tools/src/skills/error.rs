//! Why a skill cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a skill cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// There is no block between two lines of `---` at the start, or it is no YAML mapping.
    #[error("invalid front matter: {0}")]
    InvalidFrontmatter(String),
    /// A field that must be there is not, or is empty.
    #[error("the front matter lacks the field {0:?}")]
    MissingField(&'static str),
    /// The file is larger than is read.
    #[error("the file is larger than {limit} bytes")]
    TooLarge {
        /// The bound.
        limit: u64,
    },
    /// Something could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl SkillError {
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// Something about a skill that a person may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillNote {
    /// The file or folder.
    pub path: PathBuf,
    /// What.
    pub text: String,
}

impl SkillNote {
    pub(super) fn new(path: &Path, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), text: text.into() }
    }
}

impl fmt::Display for SkillNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.text)
    }
}
