//! The files that the tools can access: those of one folder, or the whole file system.
//!
//! A path in the arguments is resolved first: `..` and symlinks are followed, even if the last component does not exist
//! yet. The real path is then compared with the root, so no path leads out of it.
//!
//! A workspace prevents mistakes of the model. It is not a sandbox: it does not confine the commands of `bash`, and not
//! another process that replaces folders by symlinks at the right moment.
//!
//! ```
//! use agent_tools::Workspace;
//! let workspace = Workspace::open(std::env::temp_dir())?;
//! assert!(workspace.resolve("../../etc/passwd").is_err());
//! assert!(workspace.resolve("notes/new.txt").is_ok());
//! # Ok::<(), agent_tools::PathError>(())
//! ```

mod atomic;
mod error;
mod file_lock;
mod real;
mod regular;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::PathError;

pub(crate) use atomic::replace_file;
pub(crate) use file_lock::FileLock;
pub(crate) use regular::open_regular;

/// The folder that the file tools can access. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    root: Option<Arc<Path>>,
}

impl Workspace {
    /// Creates a workspace that the file tools cannot leave. Symlinks in `root` are resolved once, by this call.
    ///
    /// # Errors
    /// Returns an error if `root` does not exist or is not a folder.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, PathError> {
        let shown = root.as_ref().display().to_string();
        let real = std::fs::canonicalize(&root).map_err(|source| PathError::access(&shown, source))?;
        if !real.is_dir() {
            return Err(PathError::NotADirectory { path: shown });
        }
        Ok(Self { root: Some(real.into()) })
    }

    /// Creates a workspace without a root: every file is accessible, and relative paths start at the current folder.
    #[must_use]
    pub fn unconfined() -> Self {
        Self::default()
    }

    /// Returns the root as an absolute path without symlinks, or `None` for an unconfined workspace.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// Returns the real path of `path`: absolute, without `..` and symlinks. The file need not exist. Accesses the disk.
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
        let from = match self.root() {
            Some(root) => root.join(path),
            None => std::path::absolute(path).map_err(|source| PathError::access(path, source))?,
        };
        let real = real::real_path(&from, path)?;
        match self.root() {
            Some(root) if !real.starts_with(root) => Err(PathError::Outside { path: path.to_owned() }),
            Some(_) | None => Ok(real),
        }
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
