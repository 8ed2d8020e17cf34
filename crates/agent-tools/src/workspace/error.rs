//! The errors of paths.

use std::io;

/// The reason why a path was refused. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// There is no path.
    #[error("the path is empty; name a file or folder")]
    Empty,
    /// It holds a character that no sane path has and that would break line-based output.
    #[error("{path} holds a NUL or a line end; name the path without it")]
    ForbiddenCharacter {
        /// The path, with control characters escaped.
        path: String,
    },
    /// It leads out of the workspace, perhaps through `..` or a symlink.
    #[error("{path} is outside the workspace; use a path inside it")]
    Outside {
        /// The path as named.
        path: String,
    },
    /// `..` behind a folder that does not exist has no meaning.
    #[error("{path} has `..` behind a folder that does not exist; name the path without it")]
    ParentOfMissing {
        /// The path as named.
        path: String,
    },
    /// Symlinks that lead to each other.
    #[error("{path} leads through too many symlinks")]
    LinkLoop {
        /// The path as named.
        path: String,
    },
    /// The path must name a folder.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The path as named.
        path: String,
    },
    /// The path must name a file.
    #[error("{path} is a directory, not a file; use list_files to see what is in it")]
    IsADirectory {
        /// The path as named.
        path: String,
    },
    /// A device, a pipe, a socket: reading it may never end.
    #[error("{path} is not a regular file (a device, pipe or socket); only regular files can be used")]
    NotRegular {
        /// The path as named.
        path: String,
    },
    /// The operating system refused.
    #[error("Cannot access {path}: {source}")]
    Access {
        /// The path as named.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
}

impl PathError {
    pub(crate) fn access(path: &str, source: io::Error) -> Self {
        Self::Access { path: path.to_owned(), source }
    }

    /// Returns whether the path does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Access { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
