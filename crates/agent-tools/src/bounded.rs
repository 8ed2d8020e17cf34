//! Reads files that others can place: a repository, a client or a model.
//!
//! A [`BoundedFolder`] is opened once. It reads only regular files, follows no symlink below the folder, and reads at most
//! the given number of bytes, however large the file is and however it grows. A pipe, a device or a socket is refused before
//! it can block the caller. A [`Workspace`](crate::Workspace) confines the tools of a model; this type is for the files that
//! a program reads by itself.
//!
//! ```
//! use agent_tools::bounded::BoundedFolder;
//! # let home = tempfile::tempdir()?;
//! # std::fs::write(home.path().join("AGENTS.md"), "Be brief.")?;
//! let project = BoundedFolder::open(home.path())?;
//! let read = project.read("AGENTS.md", 5)?;
//! assert_eq!((read.bytes.as_slice(), read.truncated), (b"Be br".as_slice(), true));
//! assert!(project.read("../AGENTS.md", 5).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use crate::PathError;
use crate::blocking::{self, WorkError};
use crate::dir::{Dir, Facts, Kind, is_link_error};

#[cfg(test)]
#[cfg(unix)]
mod tests;

/// An open folder whose files are read within bounds. Cloning is cheap and shares the descriptor, so that the folder stays
/// the same if its path later leads elsewhere.
#[derive(Debug, Clone)]
pub struct BoundedFolder {
    dir: Dir,
    /// The real path, for errors and for display.
    real: PathBuf,
}

/// The first bytes of a file, as [`BoundedFolder::read`] returns them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounded {
    /// The content, at most as many bytes as the caller allows.
    pub bytes: Vec<u8>,
    /// Whether the file has more bytes than the caller allows.
    pub truncated: bool,
}

impl Bounded {
    /// Returns the content as text. Bytes that are not UTF-8 are replaced, and a character that the limit cut is left out.
    #[must_use]
    pub fn into_text(self) -> String {
        let mut text = String::with_capacity(self.bytes.len());
        let mut chunks = self.bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let cut = self.truncated && chunks.peek().is_none();
            if !cut && !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

impl BoundedFolder {
    /// Opens a folder that the user or the program named. Symlinks in `root` are resolved once, by this call. Blocks.
    ///
    /// # Errors
    /// Returns [`PathError::Access`] if the folder cannot be opened, and [`PathError::NotADirectory`] for a file.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, PathError> {
        let root = root.as_ref();
        let failed = |source: io::Error| failure(root, source);
        let real = std::fs::canonicalize(root).map_err(failed)?;
        // The path has no symlinks any more, and none is followed.
        let dir = Dir::whole_system(&real).and_then(|(system, below)| system.open_dir(&below));
        Ok(Self { dir: dir.map_err(failed)?, real })
    }

    /// Returns the absolute path of the folder, without symlinks, as it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Opens a folder below this one, for reading several of its files. The path is relative and has no `..`. Blocks.
    ///
    /// # Errors
    /// Returns [`PathError::Link`] if a part of the path is a symlink, and otherwise as [`read`](Self::read).
    pub fn folder(&self, path: impl AsRef<Path>) -> Result<Self, PathError> {
        let below = self.below(path.as_ref())?;
        let real = self.real.join(&below);
        let dir = self.dir.open_dir(&below).map_err(|source| failure(&real, source))?;
        Ok(Self { dir, real })
    }

    /// Reads at most `limit` bytes of a regular file below the folder. The path is relative and has no `..`. Blocks; use
    /// [`read_async`](Self::read_async) on an async thread.
    ///
    /// # Errors
    /// Returns [`PathError::Link`] if a part of the path is a symlink, [`PathError::NotRegular`] or
    /// [`PathError::IsADirectory`] if it is no file, [`PathError::Outside`] for an absolute path or `..`, and
    /// [`PathError::Access`] with the error of the operating system.
    pub fn read(&self, path: impl AsRef<Path>, limit: u64) -> Result<Bounded, PathError> {
        let below = self.below(path.as_ref())?;
        let failed = |source| failure(&self.real.join(&below), source);
        let (file, facts) = self.open_file(&below)?;
        content(file, facts.bytes, limit).map_err(failed)
    }

    /// Reads a file as [`read`](Self::read) does, on a thread for blocking work.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`PathError::Access`] if no tokio runtime is running.
    pub async fn read_async(&self, path: impl AsRef<Path>, limit: u64) -> Result<Bounded, PathError> {
        let (folder, path) = (self.clone(), path.as_ref().to_path_buf());
        let shown = self.real.join(&path).display().to_string();
        let done = blocking::to_completion(move || folder.read(path, limit)).await;
        done.unwrap_or_else(|error: WorkError| {
            let source = io::Error::other(agent_core::ToolError::from(error).to_string());
            Err(PathError::access(&shown, source))
        })
    }

    /// Reads at most `limit` bytes of a file that the user named, whose path may contain symlinks. They are resolved once, by
    /// this call, and the file must then be a regular one. Blocks.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_named(path: impl AsRef<Path>, limit: u64) -> Result<Bounded, PathError> {
        let path = path.as_ref();
        let real = std::fs::canonicalize(path).map_err(|source| failure(path, source))?;
        let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(PathError::IsADirectory { path: path.display().to_string() });
        };
        Self::open(folder)?.read(name, limit)
    }

    /// Opens a regular file and returns its properties.
    pub(crate) fn open_file(&self, below: &Path) -> Result<(File, Facts), PathError> {
        let real = self.real.join(below);
        let failed = |source| failure(&real, source);
        let path = || real.display().to_string();
        match self.dir.facts(below).map_err(failed)?.kind {
            Kind::File => self.dir.open_file(below).map_err(failed),
            Kind::Link => Err(PathError::Link { path: path() }),
            Kind::Folder => Err(PathError::IsADirectory { path: path() }),
            Kind::Other => Err(PathError::NotRegular { path: path() }),
        }
    }

    /// Returns the open folder.
    #[cfg(feature = "skills")]
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns a path below the folder, which consists of plain names.
    fn below(&self, path: &Path) -> Result<PathBuf, PathError> {
        let mut below = PathBuf::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => below.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(PathError::Outside { path: path.display().to_string() });
                }
            }
        }
        Ok(below)
    }
}

/// Reads at most `limit` bytes of an open file, whose size is at least `expected` bytes in most cases.
fn content(file: File, expected: u64, limit: u64) -> io::Result<Bounded> {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    // The file can grow while it is read, and one byte more shows whether there is a rest.
    let expected = usize::try_from(expected).unwrap_or(usize::MAX).min(most).saturating_add(1);
    let mut bytes = Vec::with_capacity(expected);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let truncated = bytes.len() > most;
    bytes.truncate(most);
    Ok(Bounded { bytes, truncated })
}

fn failure(path: &Path, source: io::Error) -> PathError {
    let shown = path.display().to_string();
    if is_link_error(&source) {
        return PathError::Link { path: shown };
    }
    match source.kind() {
        io::ErrorKind::NotADirectory => PathError::NotADirectory { path: shown },
        _ => PathError::access(&shown, source),
    }
}
