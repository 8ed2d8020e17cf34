//! Files of a workspace for the program itself, for example for a server that shows them to its user.

use std::fs::File;
use std::io::Read as _;

use super::{Intent, PathError, Workspace};
use crate::dir::Kind;

/// An entry of a folder, as [`Workspace::list`] returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FolderEntry {
    /// The name of the entry. Characters that are not UTF-8 are replaced.
    pub name: String,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The size of a file in bytes; 0 for other entries.
    pub bytes: u64,
}

/// The kind of an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A regular file with a content.
    File,
    /// A folder, which can be listed.
    Folder,
    /// A symlink, which is not followed.
    Link,
    /// A device, a pipe or a socket.
    Other,
}

/// A file that is larger than the caller reads.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFileBytesError {
    /// The path was refused, or the file cannot be read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The file has more bytes than the limit of the caller.
    #[error("{path} is larger than {limit} bytes")]
    TooLarge {
        /// The path as it was named.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
}

/// Methods for the program that owns the workspace. They obey the same rules as the file tools, except for the policies of a
/// run. They block, so call them on a thread that may wait.
impl Workspace {
    /// Returns the entries of a folder, ordered by name, and at most `limit` of them. Entries that the file tools do not list
    /// are left out. The second value is the number of all entries that are listed without the limit.
    ///
    /// # Errors
    /// Returns [`PathError`] if the path is refused, or does not name a folder that can be read.
    pub fn list(&self, path: &str, limit: usize) -> Result<(Vec<FolderEntry>, usize), PathError> {
        let place = self.place(path, Intent::List)?;
        if place.facts()?.kind != Kind::Folder {
            return Err(PathError::NotADirectory { path: path.to_owned() });
        }
        let items = place.dir().items(place.below()).map_err(|source| place.failed(source))?;
        let mut entries = Vec::new();
        let mut total = 0;
        for item in items {
            let below = place.below().join(&item.name);
            let real = place.real().join(&item.name);
            if self.rules.check(&real, &below, Intent::List, "").is_err() {
                continue;
            }
            total += 1;
            if entries.len() == limit {
                continue;
            }
            let kind = match item.kind {
                Kind::File => EntryKind::File,
                Kind::Folder => EntryKind::Folder,
                Kind::Link => EntryKind::Link,
                Kind::Other => EntryKind::Other,
            };
            let bytes = match kind {
                EntryKind::File => place.dir().facts(&below).map_or(0, |facts| facts.bytes),
                EntryKind::Folder | EntryKind::Link | EntryKind::Other => 0,
            };
            entries.push(FolderEntry { name: item.name.to_string_lossy().into_owned(), kind, bytes });
        }
        Ok((entries, total))
    }

    /// Opens a regular file for reading. Use it for a `FileWatch` of `agent_session`, which then looks only at files that the
    /// tools can read.
    ///
    /// # Errors
    /// Returns [`PathError`] if the path is refused, or does not name a regular file that can be read.
    pub fn open_file(&self, path: &str) -> Result<File, PathError> {
        let (file, _) = self.place(path, Intent::Read)?.open_file()?;
        Ok(file)
    }

    /// Returns the content of a regular file with at most `limit` bytes.
    ///
    /// # Errors
    /// Returns [`ReadFileBytesError::TooLarge`] for a larger file, and [`ReadFileBytesError::Path`] if the path is refused or
    /// the file cannot be read.
    pub fn read_bytes(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadFileBytesError> {
        let place = self.place(path, Intent::Read)?;
        let (file, bytes) = place.open_file()?;
        let too_large = || ReadFileBytesError::TooLarge { path: path.to_owned(), limit };
        if bytes > limit {
            return Err(too_large());
        }
        let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
        // The file can grow while it is read.
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|source| place.failed(source))?;
        if content.len() as u64 > limit {
            return Err(too_large());
        }
        Ok(content)
    }

    /// Writes a file in one step and creates missing folders. An existing file is replaced as a whole.
    ///
    /// # Errors
    /// Returns [`PathError`] if the path is refused or cannot be written. An existing file is unchanged then.
    pub fn write_bytes(&self, path: &str, content: &[u8]) -> Result<(), PathError> {
        let place = self.place(path, Intent::Write)?;
        match place.facts() {
            Ok(facts) if facts.kind == Kind::Folder => {
                return Err(PathError::IsADirectory { path: path.to_owned() });
            }
            Ok(facts) if facts.kind == Kind::Other => {
                return Err(PathError::NotRegular { path: path.to_owned() });
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        place.replace(content)
    }
}
