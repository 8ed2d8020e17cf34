//! The files that the tools can access: those of one folder, or the whole file system.
//!
//! [`Workspace::open`] opens the root once. A path in the arguments is first resolved to a path without `..` and symlinks,
//! which must be below the root; this path is checked against the rule below, and then opened relative to the open root
//! without following any symlink. If another process replaces a part of it by a symlink in between, the access fails. On
//! Linux the kernel enforces this (`openat2` with `RESOLVE_BENEATH`, or `O_NOFOLLOW` for each part), on other Unix systems
//! `O_NOFOLLOW` does. Elsewhere the parts are checked directly before an access by path, and a process that exchanges files
//! at this moment can win. A test exchanges folders and symlinks while all tools work
//! ([race.rs](https://github.com/looptree/looptree/blob/main/crates/agent-tools/tests/race.rs)).
//!
//! One rule applies to all file tools, `list_files` and `search` included:
//!
//! | path | list | read, search | write |
//! |---|---|---|---|
//! | a part is named `.git` (any case): the data of a repository | no | no | no |
//! | where a `.git` of the root or above it leads as a file or a link, when the workspace is opened | no | no | no |
//! | in a folder of [`with_protected`](Workspace::with_protected) | no | no | no |
//! | matches a pattern of [`with_denied`](Workspace::with_denied) | yes | no | no |
//!
//! A [`ToolPolicy`](agent_core::ToolPolicy) of the run that denies reading a file by a pattern over `/path` denies it to every
//! file tool that would show its content.
//! The rule compares names. It does not protect a folder from a process that can rename it.
//!
//! A workspace is not a sandbox: it does not confine the commands of `bash`. The file tools cannot distinguish a hard link
//! from the file itself, so a command that can create a hard link to a file outside makes that file readable; a write
//! replaces the link and does not change the file outside.
//!
//! ```
//! use agent_tools::Workspace;
//! let workspace = Workspace::open(std::env::temp_dir())?;
//! assert!(workspace.resolve("../../etc/passwd").is_err());
//! assert!(workspace.resolve("notes/new.txt").is_ok());
//! # Ok::<(), agent_tools::PathError>(())
//! ```

mod access;
mod error;
mod file_lock;
mod files;
mod git_data;
mod real;
mod rules;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::PathError;
pub use files::{EntryKind, FolderEntry, ReadFileBytesError};

pub(crate) use access::{Access, Place};
pub(crate) use file_lock::FileLock;
pub(crate) use rules::{Intent, is_repository, is_settings};

use crate::dir::Dir;
use crate::glob::PatternError;
use rules::{Rules, UsedBy};

/// The folder that the file tools can access. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    root: Option<Arc<Root>>,
    rules: Arc<Rules>,
}

/// The root of a workspace. The descriptor stays the same if the path later leads to another folder.
#[derive(Debug)]
struct Root {
    real: PathBuf,
    dir: Dir,
}

impl Workspace {
    /// Creates a workspace that the file tools cannot leave. Symlinks in `root` are resolved once, by this call, and the
    /// folder stays open until the last clone is dropped.
    ///
    /// # Errors
    /// Returns an error if `root` does not exist or is not a folder.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, PathError> {
        let shown = root.as_ref().display().to_string();
        let access = |source| PathError::access(&shown, source);
        let real = std::fs::canonicalize(&root).map_err(access)?;
        // The path has no symlinks any more, and none is followed.
        let open = || Dir::whole_system(&real).and_then(|(system, below)| system.open_dir(&below));
        let dir = open().map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => PathError::NotADirectory { path: shown.clone() },
            _ => access(source),
        })?;
        let mut rules = Rules::default();
        git_data::beside(&real).into_iter().for_each(|data| rules.protect(data, UsedBy::Git));
        Ok(Self { root: Some(Arc::new(Root { real, dir })), rules: Arc::new(rules) })
    }

    /// Creates a workspace without a root: every file is accessible, and relative paths start at the current folder.
    #[must_use]
    pub fn unconfined() -> Self {
        Self::default()
    }

    /// Protects a file or a folder that the program uses itself, such as the folder of its sessions: the file tools do not
    /// list, search, read or write it. The path is relative to the root, or absolute, and need not exist yet. Symlinks in it
    /// are resolved once, by this call. Upper and lower case are the same.
    ///
    /// # Errors
    /// Returns an error if the path cannot be resolved.
    pub fn with_protected(mut self, path: impl AsRef<Path>) -> Result<Self, PathError> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let real = real::real_path(&self.absolute(path, &shown)?, &shown)?;
        Arc::make_mut(&mut self.rules).protect(real, UsedBy::Program);
        Ok(self)
    }

    /// Denies reading, searching and writing of files that match a glob. `list_files` still shows their names, so that the
    /// model does not try to create them.
    ///
    /// A pattern without a `/` is compared with every name of the path, so `*.env` denies the files `.env` and
    /// `config/test.env`, and `secrets` denies everything in folders of this name. A pattern with a `/` is compared with the
    /// path relative to the root and with the folders above it. In an unconfined workspace the path is relative to the root
    /// of the file system. The resolved path is compared, and upper and lower case are the same.
    ///
    /// # Errors
    /// Returns an error if the pattern is not a glob or exceeds a [limit](crate::glob).
    pub fn with_denied(mut self, pattern: impl AsRef<str>) -> Result<Self, PatternError> {
        Arc::make_mut(&mut self.rules).deny(pattern.as_ref())?;
        Ok(self)
    }

    /// Returns the paths of [`with_protected`](Self::with_protected), resolved.
    pub fn protected(&self) -> impl Iterator<Item = &Path> {
        self.rules.protected()
    }

    /// Returns this workspace with the rules of `other`, whose root it stands for.
    pub(crate) fn with_rules_of(mut self, other: &Self) -> Self {
        if let (Some(from), Some(to)) = (other.root(), self.root()) {
            self.rules = Arc::new(other.rules.moved(from, to));
        }
        self
    }

    /// Returns whether the program uses a path itself, so that no tool can see it. The path is relative to the root.
    pub(crate) fn hides(&self, below: &Path) -> bool {
        let real = self.root().map_or_else(|| below.to_path_buf(), |root| root.join(below));
        self.rules.find_user(&real).is_some()
    }

    /// Returns the root as an absolute path without symlinks, or `None` for an unconfined workspace.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_ref().map(|root| root.real.as_path())
    }

    /// Returns the open root, or `None` for an unconfined workspace.
    pub(crate) fn root_dir(&self) -> Option<&Dir> {
        self.root.as_ref().map(|root| &root.dir)
    }

    /// Returns the real path of `path`: absolute, without `..` and symlinks. The file need not exist. Accesses the disk.
    ///
    /// The result is for display and comparison. It is not safe to open it later if other processes can write below the
    /// root, because a part of it may have become a symlink.
    ///
    /// # Errors
    /// Returns an error if the path is empty, contains a NUL or a line end, cannot be resolved, or leads out of the root.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, PathError> {
        if path.is_empty() {
            return Err(PathError::Empty);
        }
        if path.contains(['\0', '\n', '\r']) {
            return Err(PathError::ForbiddenCharacter { path: path.escape_debug().to_string() });
        }
        let real = real::real_path(&self.absolute(Path::new(path), path)?, path)?;
        match self.root() {
            Some(root) if !real.starts_with(root) => Err(PathError::Outside { path: path.to_owned() }),
            Some(_) | None => Ok(real),
        }
    }

    fn absolute(&self, path: &Path, shown: &str) -> Result<PathBuf, PathError> {
        match self.root() {
            Some(root) => Ok(root.join(path)),
            None => std::path::absolute(path).map_err(|source| PathError::access(shown, source)),
        }
    }

    /// Splits a real path into the open folder from which it is accessed, and the path relative to it.
    fn split(&self, real: &Path) -> io::Result<(Dir, PathBuf)> {
        let Some(root) = &self.root else { return Dir::whole_system(real) };
        let below = real.strip_prefix(&root.real).map_err(io::Error::other)?;
        Ok((root.dir.clone(), below.to_path_buf()))
    }

    /// Returns the formatter of real paths for the model.
    pub(crate) fn labels(&self) -> Labels {
        let base = match self.root() {
            Some(root) => Some(root.to_path_buf()),
            None => std::env::current_dir().ok().and_then(|dir| std::fs::canonicalize(dir).ok()),
        };
        Labels { base }
    }
}

/// Formats real paths so that the model can pass them to another tool: relative to the root or the current folder if
/// they are inside of it, with `/` as the separator, and with line ends escaped.
#[derive(Debug)]
pub(crate) struct Labels {
    base: Option<PathBuf>,
}

impl Labels {
    pub(crate) fn of(&self, real: &Path) -> String {
        let short = self.base.as_deref().and_then(|base| real.strip_prefix(base).ok()).unwrap_or(real);
        crate::text::path_text(short)
    }
}
