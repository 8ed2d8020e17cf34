//! The errors of paths.

use std::io;

/// The reason why a path was refused. The texts are written for the model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path is empty.
    #[error("the path is empty; name a file or folder")]
    Empty,
    /// The path contains a NUL or a line end, which would break line-based output.
    #[error("{path} holds a NUL or a line end; name the path without it")]
    ForbiddenCharacter {
        /// The path, with control characters escaped.
        path: String,
    },
    /// The path leads out of the workspace, for example through `..` or a symlink.
    #[error("{path} is outside the workspace; use a path inside it")]
    Outside {
        /// The path in the arguments.
        path: String,
    },
    /// The path is in a folder that the program uses itself ([`with_protected`](crate::Workspace::with_protected)).
    #[error("{path} belongs to this program, and tools cannot use it; use another path")]
    Protected {
        /// The path in the arguments.
        path: String,
    },
    /// The path is in the data of a git repository.
    #[error("{path} is in the data of a git repository, which the file tools do not access; use git itself")]
    Repository {
        /// The path in the arguments.
        path: String,
    },
    /// The path would be written in a folder `.looptree`, which has settings of the command `looptree`.
    #[error(
        "{path} is in the settings of a project, which the file tools do not change; ask the user to change them"
    )]
    Settings {
        /// The path in the arguments.
        path: String,
    },
    /// The path matches a denied pattern ([`with_denied`](crate::Workspace::with_denied)).
    #[error("{path} matches the denied pattern {pattern}; its content cannot be read or written")]
    Denied {
        /// The path in the arguments.
        path: String,
        /// The pattern as it was given to the workspace.
        pattern: String,
    },
    /// A policy of the run denies the access.
    #[error("{path} cannot be accessed: {reason}")]
    Policy {
        /// The path in the arguments.
        path: String,
        /// The reason of the policy.
        reason: String,
    },
    /// A link on the path was created or exchanged between the resolution of the path, or the decision of the hooks about it,
    /// and the access.
    #[error("a link on the path {path} changed while the call was prepared; try again")]
    Changed {
        /// The path in the arguments.
        path: String,
    },
    /// A part of a path is a symlink, where the program follows none
    /// ([`BoundedFolder`](crate::bounded::BoundedFolder)).
    #[error(
        "{path} is a symlink or leads through one, which is not followed here; put the file itself there"
    )]
    Link {
        /// The absolute path that was refused.
        path: String,
    },
    /// The path has `..` after a folder that does not exist.
    #[error("{path} has `..` behind a folder that does not exist; name the path without it")]
    ParentOfMissing {
        /// The path in the arguments.
        path: String,
    },
    /// The path contains symlinks that lead to each other.
    #[error("{path} leads through too many symlinks")]
    LinkLoop {
        /// The path in the arguments.
        path: String,
    },
    /// The path must name a folder.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The path in the arguments.
        path: String,
    },
    /// The path must name a file.
    #[error("{path} is a directory, not a file; use list_files to see what is in it")]
    IsADirectory {
        /// The path in the arguments.
        path: String,
    },
    /// The path names a device, a pipe or a socket, whose reading may never end.
    #[error("{path} is not a regular file (a device, pipe or socket); only regular files can be used")]
    NotRegular {
        /// The path in the arguments.
        path: String,
    },
    /// An operation of the operating system failed.
    #[error("Cannot access {path}: {source}")]
    Access {
        /// The path in the arguments.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl PathError {
    pub(crate) fn access(path: &str, source: io::Error) -> Self {
        Self::Access { path: path.to_owned(), source }
    }

    /// Returns whether the path does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Access { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl From<PathError> for io::Error {
    /// Returns the error of the operating system, if it is the reason.
    fn from(error: PathError) -> Self {
        match error {
            PathError::Access { source, .. } => source,
            other => Self::other(other),
        }
    }
}
