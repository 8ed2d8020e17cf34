//! Where the tools work: a folder that they stay in, or the whole file system.
//!
//! A path that the model names is made real first: `..` and symlinks are followed to where they lead, also when the
//! last part does not exist yet. Only then it is compared with the root, so nothing leads out of it (D25).
//!
//! This guards against a model that goes astray. It is no sandbox: another process that swaps folders for symlinks
//! at the right moment, and commands run by `bash`, are not held by it.
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
mod order;
mod real;
mod regular;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::AgentTool;

pub use error::PathError;

pub(crate) use atomic::replace_file;
pub(crate) use order::FileOrder;
pub(crate) use regular::open_regular;

use crate::{BashTool, EditFileTool, ListFilesTool, ReadFileTool, SearchTool, WriteFileTool};

/// The folder that tools work in. A clone is cheap and means the same folder.
#[derive(Debug, Clone, Default)]
pub struct Workspace {
    root: Option<Arc<Path>>,
}

impl Workspace {
    /// A workspace that file tools cannot leave. Symlinks in `root` itself are resolved once, here.
    ///
    /// # Errors
    /// When `root` does not exist or is not a folder.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, PathError> {
        let shown = root.as_ref().display().to_string();
        let real = std::fs::canonicalize(&root).map_err(|source| PathError::access(&shown, source))?;
        if !real.is_dir() {
            return Err(PathError::NotADirectory { path: shown });
        }
        Ok(Self { root: Some(real.into()) })
    }

    /// No bounds: relative paths start at the folder that the process runs in, and every file is in reach.
    #[must_use]
    pub fn unconfined() -> Self {
        Self::default()
    }

    /// The root, when there is one: absolute and without symlinks.
    #[must_use]
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The six built-in tools for this workspace, in the order of [`default_tools`](crate::default_tools).
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<dyn AgentTool>> {
        vec![
            Arc::new(BashTool::new(self.clone())),
            Arc::new(ReadFileTool::new(self.clone())),
            Arc::new(WriteFileTool::new(self.clone())),
            Arc::new(EditFileTool::new(self.clone())),
            Arc::new(ListFilesTool::new(self.clone())),
            Arc::new(SearchTool::new(self.clone())),
        ]
    }

    /// Only the tools that change nothing: `read_file`, `list_files`, `search`.
    #[must_use]
    pub fn read_only_tools(&self) -> Vec<Arc<dyn AgentTool>> {
        vec![
            Arc::new(ReadFileTool::new(self.clone())),
            Arc::new(ListFilesTool::new(self.clone())),
            Arc::new(SearchTool::new(self.clone())),
        ]
    }

    /// Where `path` really is: absolute, without `..` and symlinks. The file need not exist. Touches the disk.
    ///
    /// # Errors
    /// When the path is empty, holds a NUL or a line end, cannot be followed, or leads out of the root.
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

    /// How real paths are shown to the model.
    pub(crate) fn labels(&self) -> Labels {
        let base = match self.root() {
            Some(root) => Some(root.to_path_buf()),
            None => std::env::current_dir().ok().and_then(|dir| std::fs::canonicalize(dir).ok()),
        };
        Labels { base }
    }
}

/// Shows real paths so that they can be handed to another tool: relative to the root or to the folder of the process
/// where they lie in there, with `/` between the parts, and with line ends escaped.
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
