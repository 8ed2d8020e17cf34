//! The errors of branch workspaces.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::PathError;

/// The reason why a branch has no workspace, or why its changes were not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BranchWorkspaceError {
    /// The origin cannot be used.
    #[error(transparent)]
    Path(#[from] PathError),
    /// An operation of the operating system failed.
    #[error("{} could not be {action}: {source}", .path.display())]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The path of the failed operation.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A folder contains more files or bytes than allowed.
    #[error("{} holds more than {limit} {what}; leave more out with .gitignore, or allow more with with_max_{what}", .path.display())]
    TooLarge {
        /// The folder that is too large.
        path: PathBuf,
        /// The limited quantity: `files` or `bytes`.
        what: &'static str,
        /// The maximum number of files or bytes.
        limit: u64,
    },
    /// The folder for workspaces is inside of the folder that is copied.
    #[error("{} lies inside of the folder that is copied; name another one", .folder.display())]
    InsideOrigin {
        /// The folder for workspaces.
        folder: PathBuf,
    },
    /// The program `git` could not be started.
    #[error("git could not be started: {source}; install it, or use copies_of")]
    NoGit {
        /// The error of the operating system.
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
    /// A git command exceeded its time limit and was ended.
    #[error("git {command} took longer than {} seconds", .limit.as_secs())]
    GitTimedOut {
        /// The git command that was ended.
        command: String,
        /// The time after which it was ended.
        limit: Duration,
    },
    /// A file that git reads is a pipe, a socket or a device. Git would wait for it.
    #[error("{} is neither a file nor a folder, and git would wait for it; remove it, or use copies_of", .path.display())]
    SpecialFile {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file with settings of the repository is larger than allowed.
    #[error("{} holds more than {limit} bytes; shorten it, or use copies_of", .path.display())]
    LargeSettings {
        /// The path of the file.
        path: PathBuf,
        /// The maximum number of bytes.
        limit: u64,
    },
    /// The repository of the origin is stored in a place or a form that is not used.
    #[error("the repository of {} is not used: {reason}; use copies_of", .path.display())]
    Repository {
        /// The path of the original folder.
        path: PathBuf,
        /// The place or the form that is refused.
        reason: &'static str,
    },
    /// The origin has changed since the branch started. Nothing was written.
    #[error(
        "the origin has changed since the branch began, at {}; nothing was taken over",
        shown(.paths)
    )]
    Conflict {
        /// The changed paths, relative to the original folder.
        paths: Vec<PathBuf>,
    },
    /// A link that the branch created leads out of its folder. Nothing was written.
    #[error("the link {} is absolute or leads out of the branch's folder; nothing was taken over", .path.display())]
    LeadsOut {
        /// The link, relative to the branch's folder.
        path: PathBuf,
    },
    /// A part of the changes was written before an operation failed.
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

/// The maximum number of paths in the text of a conflict.
const SHOWN: usize = 5;

fn shown(paths: &[PathBuf]) -> String {
    let mut text: Vec<String> = paths.iter().take(SHOWN).map(|p| p.display().to_string()).collect();
    if let Some(more) = paths.len().checked_sub(SHOWN).filter(|n| *n > 0) {
        text.push(format!("{more} more"));
    }
    text.join(", ")
}
