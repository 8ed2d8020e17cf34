//! Folders by path, for systems whose standard library cannot open files relative to a folder.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

use super::{Facts, Identity, Item, Kind, NewFile, names, not_regular, parts, sorted};

/// A folder. The path is canonical.
#[derive(Debug, Clone)]
pub(crate) struct Dir {
    path: PathBuf,
}

/// The text of the error of a path that contains a link.
const LINK: &str = "a part of the path is a symlink";

/// Returns whether an operation failed because a part of its path is a symlink.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string() == LINK
}

impl Dir {
    /// Opens the folder at `path`, which may contain symlinks.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        if path.is_dir() { Ok(Self { path }) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Opens the folder that contains all real paths of a drive, and returns the rest of `real`.
    pub(crate) fn whole_system(real: &Path) -> io::Result<(Self, PathBuf)> {
        let is_root = |part: &Component<'_>| matches!(part, Component::Prefix(_) | Component::RootDir);
        let root: PathBuf = real.components().take_while(is_root).collect();
        Ok((Self { path: root }, real.components().skip_while(is_root).collect()))
    }

    /// Returns the path, if none of its folders is a link. On Windows, a stream (`name:stream`) and a name with a dot or a
    /// blank at its end are other spellings of a file, which the rule of a workspace would not recognize.
    fn checked(&self, below: &Path) -> io::Result<PathBuf> {
        let names = names(below)?;
        let is_other_spelling = |name: &OsStr| {
            let name = name.to_string_lossy();
            name.contains(':') || name.ends_with(['.', ' '])
        };
        if names.iter().any(|name| is_other_spelling(name)) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let mut path = self.path.clone();
        let folders = names.len().saturating_sub(1);
        for (number, name) in names.into_iter().enumerate() {
            path.push(name);
            if number < folders && fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
                return Err(io::Error::other(LINK));
            }
        }
        Ok(path)
    }

    /// Opens a folder below this one.
    pub(crate) fn open_dir(&self, below: &Path) -> io::Result<Self> {
        let path = self.checked(below)?;
        let meta = fs::symlink_metadata(&path)?;
        if meta.is_symlink() {
            return Err(io::Error::other(LINK));
        }
        if meta.is_dir() { Ok(Self { path }) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    /// Opens a folder below this one, and creates missing folders.
    pub(crate) fn create_dirs(&self, below: &Path) -> io::Result<Self> {
        fs::create_dir_all(self.checked(below)?)?;
        self.open_dir(below)
    }

    /// Returns the properties of a path. A link at its end is not followed.
    pub(crate) fn facts(&self, below: &Path) -> io::Result<Facts> {
        fs::symlink_metadata(self.checked(below)?).map(|meta| facts(&meta))
    }

    /// Opens a regular file for reading and returns its properties.
    pub(crate) fn open_file(&self, below: &Path) -> io::Result<(File, Facts)> {
        let path = self.checked(below)?;
        let found = facts(&fs::symlink_metadata(&path)?);
        match found.kind {
            Kind::File => {}
            Kind::Link => return Err(io::Error::other(LINK)),
            kind @ (Kind::Folder | Kind::Other) => return Err(not_regular(kind)),
        }
        let file = File::open(&path)?;
        let facts = facts(&file.metadata()?);
        Ok((file, facts))
    }

    /// Returns the target of a link.
    pub(crate) fn read_link(&self, below: &Path) -> io::Result<PathBuf> {
        fs::read_link(self.checked(below)?)
    }

    /// Returns at most `limit` entries of a folder, ordered by name, and whether they are all of them.
    pub(crate) fn first_items(&self, below: &Path, limit: usize) -> io::Result<(Vec<Item>, bool)> {
        let mut items = Vec::new();
        for entry in fs::read_dir(self.open_dir(below)?.path)? {
            let entry = entry?;
            if items.len() == limit {
                return Ok((sorted(items), false));
            }
            items.push(Item { name: entry.file_name(), kind: kind(entry.file_type()?) });
        }
        Ok((sorted(items), true))
    }

    /// Creates a file that must not exist yet.
    pub(crate) fn create_file(&self, below: &Path, _: NewFile) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(self.checked(below)?)
    }

    /// Creating links needs rights that accounts do not have by default.
    pub(crate) fn create_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Renames a file, and replaces the file at `to`.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.checked(from)?, self.checked(to)?)
    }

    /// Removes a file or link.
    pub(crate) fn remove_file(&self, below: &Path) -> io::Result<()> {
        fs::remove_file(self.checked(below)?)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_dir(&self, below: &Path) -> io::Result<()> {
        fs::remove_dir(self.checked(below)?)
    }

    /// Writes `content` beside `below` and creates missing folders. [`Staged::commit`] puts it in place of the file. It gets the
    /// permissions of the file at `like`, which is `below` by default.
    ///
    /// # Errors
    /// Returns the error of the operating system. The old file is unchanged.
    pub(crate) fn stage(&self, below: &Path, content: &[u8], like: Option<&Path>) -> io::Result<Staged> {
        let (folder, name) = parts(below)?;
        let folder = self.create_dirs(folder)?;
        let name = Path::new(name);
        let old = match like {
            Some(like) => self.writable(like)?,
            None => folder.writable(name)?,
        };
        let make = |folder: &Self, path: &Path| folder.create_file(path, NewFile::Usual);
        let (mut file, new) = folder.with_new_name(Path::new(""), ".looptree-", make)?;
        let staged = Staged { folder, new: Some(new), name: name.to_path_buf() };
        file.write_all(content)
            .and_then(|()| old.map_or(Ok(()), |old| file.set_permissions(old.permissions())))
            .and_then(|()| file.sync_all())?;
        Ok(staged)
    }

    /// Checks that the file at `below` is not read-only.
    pub(crate) fn check_writable(&self, below: &Path) -> io::Result<()> {
        self.writable(below).map(|_| ())
    }

    /// Returns the properties of the file at `below`, if there is one, and checks that it is not read-only.
    fn writable(&self, below: &Path) -> io::Result<Option<Metadata>> {
        let old = match self.open_file(below) {
            Ok((file, _)) => file.metadata()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        OpenOptions::new().write(true).open(self.checked(below)?)?;
        Ok(Some(old))
    }
}

/// A content that was written beside its file. It is removed when it is dropped before it has taken the place of the file.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: Dir,
    new: Option<PathBuf>,
    name: PathBuf,
}

impl Staged {
    /// Replaces the file in one step.
    ///
    /// # Errors
    /// Returns the error of the operating system. The old file is then unchanged.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        if let Some(new) = &self.new {
            self.folder.rename(new, &self.name)?;
            self.new = None;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            drop(self.folder.remove_file(new));
        }
    }
}

fn kind(of: fs::FileType) -> Kind {
    if of.is_symlink() {
        Kind::Link
    } else if of.is_dir() {
        Kind::Folder
    } else if of.is_file() {
        Kind::File
    } else {
        Kind::Other
    }
}

/// The standard library does not give the number of a file, so all files have the same identity.
fn facts(meta: &Metadata) -> Facts {
    let identity = Identity { device: 0, inode: 0 };
    Facts { kind: kind(meta.file_type()), bytes: meta.len(), executable: false, identity }
}
