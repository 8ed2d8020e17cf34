//! Why a branch has no workspace, or its changes were not taken over.

use std::io;
use std::path::{Path, PathBuf};

use crate::PathError;

/// The reason why a branch has no workspace, or why its changes were not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BranchWorkspaceError {
    /// The origin cannot be used.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The operating system refused.
    #[error("{} could not be {action}: {source}", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The path of the failed operation.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A folder holds more than is allowed.
    #[error("{} holds more than {limit} {what}; leave more out with .gitignore, or allow more with with_max_{what}", .path.display())]
    TooLarge {
        /// The folder that is too large.
        path: PathBuf,
        /// The limited quantity: `files` or `bytes`.
        what: &'static str,
        /// The maximum number of files or bytes.
        limit: u64,
    },
    /// A copy would lie in what is copied.
    #[error("{} lies inside of the folder that is copied; name another one", .folder.display())]
    InsideOrigin {
        /// The folder for workspaces.
        folder: PathBuf,
    },
    /// There is no `git`.
    #[error("git could not be started: {source}; install it, or use copies_of")]
    NoGit {
        /// The operating system's words.
        source: io::Error,
    },
    /// A git command failed.
    #[error("git {command} failed: {message}")]
    Git {
        /// The git command that failed.
        command: String,
        /// The error output of git.
        message: String,
    },
    /// The origin is not as the branch found it. Nothing was written.
    #[error(
        "the origin has changed since the branch began, at {}; nothing was taken over",
        shown(.paths)
    )]
    Conflict {
        /// The path, relative to the original folder.
        paths: Vec<PathBuf>,
    },
    /// A link that the branch made leads out of it. Nothing was written.
    #[error("the link {} is absolute or leads out of the branch's folder; nothing was taken over", .path.display())]
    LeadsOut {
        /// The link, relative to the branch's folder.
        path: PathBuf,
    },
    /// A part was written before something failed.
    #[error("{source}; {} of the changes had been taken over before", .applied.len())]
    Partly {
        /// The paths that were written, relative to the original folder.
        applied: Vec<PathBuf>,
        /// The error that stopped the operation.
        source: Box<BranchWorkspaceError>,
    },
}

impl BranchWorkspaceError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_path_buf(), source }
    }
}

/// How many places of a conflict its text names.
const SHOWN: usize = 5;

fn shown(paths: &[PathBuf]) -> String {
    let mut text: Vec<String> = paths.iter().take(SHOWN).map(|p| p.display().to_string()).collect();
    if let Some(more) = paths.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        text.push(format!("{more} more"));
    }
    text.join(", ")
}
