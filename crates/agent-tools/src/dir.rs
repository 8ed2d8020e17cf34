//! Folders that are accessed by descriptor.
//!
//! A [`Dir`] is an open folder. Its methods take a path below the folder, which consists of plain names only, and never
//! follow a symlink in it: if a part of the path is or becomes a link, the operation fails with an error for which
//! [`is_link_error`] returns `true`. An operation therefore affects exactly the path that was checked before.
//!
//! On Linux a folder is opened with `openat2` and `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS`. Where
//! this call does not exist or is not permitted, and on other Unix systems, each part of the path is opened by itself with
//! `O_NOFOLLOW`. Other systems have no such calls in the standard library: there the parts are checked for links directly
//! before the access by path, which another process can outrun.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
mod xattrs;

#[cfg(test)]
#[cfg(unix)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Component, Path, PathBuf};

#[cfg(not(unix))]
pub(crate) use other::{Dir, Staged, is_link_error};
#[cfg(unix)]
pub(crate) use unix::{Dir, Staged, is_link_error};

/// The kind of a path. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Other,
}

/// Identifies a file or folder as long as it exists, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// The properties of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    pub(crate) executable: bool,
    pub(crate) identity: Identity,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
}

/// Who can access a new file, before the umask of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewFile {
    /// As for any new file: 0666.
    Usual,
    /// Only this account: 0600.
    Private,
}

/// The maximum number of entries of a folder. A larger folder cannot be listed.
pub(crate) const MAX_ITEMS: usize = 1_000_000;

/// The maximum number of random names that are tried for a new file.
const MAX_NAMES: usize = 16;

impl Dir {
    /// Calls `make` with random names in `folder` until one does not exist yet.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub(crate) fn with_new_name<T>(
        &self,
        folder: &Path,
        prefix: &str,
        mut make: impl FnMut(&Self, &Path) -> io::Result<T>,
    ) -> io::Result<(T, PathBuf)> {
        for _ in 0..MAX_NAMES {
            let path = folder.join(format!("{prefix}{:016x}", RandomState::new().hash_one(0)));
            match make(self, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|made| (made, path)),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Dir {
    /// Returns the entries of a folder, ordered by name.
    ///
    /// # Errors
    /// Returns the error of the operating system, and an error for a folder with more than [`MAX_ITEMS`] entries.
    pub(crate) fn items(&self, below: &Path) -> io::Result<Vec<Item>> {
        match self.first_items(below, MAX_ITEMS)? {
            (items, true) => Ok(items),
            (_, false) => Err(io::Error::other(format!("the folder has more than {MAX_ITEMS} entries"))),
        }
    }

    /// Writes `content` to `below` and creates missing folders. The content is written to a new file in the same folder and
    /// flushed to the disk, and the new file is then renamed.
    ///
    /// # Errors
    /// Returns the error of the operating system. The old file is then unchanged.
    pub(crate) fn replace(&self, below: &Path, content: &[u8]) -> io::Result<()> {
        self.stage(below, content, None)?.commit()
    }
}

/// Returns the folder and the name of a path below a folder.
fn parts(below: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = below.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok((below.parent().unwrap_or(Path::new("")), name))
}

/// Returns the names of a path below a folder.
fn names(below: &Path) -> io::Result<Vec<&OsStr>> {
    let name = |part| match part {
        Component::Normal(name) => Ok(name),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    below.components().map(name).collect()
}

fn sorted(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by(|one, other| one.name.cmp(&other.name));
    items
}

/// Returns the error for a path that is not a regular file.
fn not_regular(kind: Kind) -> io::Error {
    io::Error::other(match kind {
        Kind::Folder => "it is a directory",
        Kind::File | Kind::Link | Kind::Other => "it is not a regular file (a device, pipe or socket)",
    })
}
