//! Folders as file descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

use super::{Facts, Identity, Item, Kind, NewFile, names, not_regular, parts, sorted, xattrs};

/// An open folder. Cloning shares the descriptor.
#[derive(Debug, Clone)]
pub(crate) struct Dir {
    fd: Arc<OwnedFd>,
}

/// Returns whether an operation failed because a part of its path is a symlink, or leads to another place.
pub(crate) fn is_link_error(error: &io::Error) -> bool {
    [Errno::LOOP, Errno::XDEV].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The flags of a descriptor that only names a folder.
fn folder_flags() -> OFlags {
    // With `O_PATH`, entering a folder needs no permission to read it.
    #[cfg(target_os = "linux")]
    let flags = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let flags = OFlags::RDONLY;
    flags | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// The flags that every open of a file needs: it does not follow a link, wait for a pipe or take a terminal.
const FILE_FLAGS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl Dir {
    /// Opens the folder at `path`, which may contain symlinks.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::of(fs::openat(CWD, path, folder_flags(), Mode::empty())?))
    }

    /// Opens the folder that contains all real paths, and returns the rest of `real`, which must be absolute.
    pub(crate) fn whole_system(real: &Path) -> io::Result<(Self, PathBuf)> {
        let root = Path::new("/");
        let below = real.strip_prefix(root).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok((Self::open(root)?, below.to_path_buf()))
    }

    fn of(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    /// Opens a folder below this one.
    pub(crate) fn open_dir(&self, below: &Path) -> io::Result<Self> {
        let names = names(below)?;
        if names.is_empty() {
            return Ok(self.clone());
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
            match fs::openat2(&self.fd, below, folder_flags(), Mode::empty(), resolve) {
                Ok(fd) => return Ok(Self::of(fd)),
                // Older kernels lack the call, and some containers forbid it.
                Err(Errno::NOSYS | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.open_dir_by_parts(&names)
    }

    /// Opens one folder after the other.
    pub(super) fn open_dir_by_parts(&self, names: &[&OsStr]) -> io::Result<Self> {
        names.iter().try_fold(self.clone(), |folder, name| folder.enter(name))
    }

    fn enter(&self, name: &OsStr) -> io::Result<Self> {
        match fs::openat(&self.fd, name, folder_flags() | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(fd) => Ok(Self::of(fd)),
            // A link is reported as something that is not a folder.
            Err(Errno::NOTDIR) if self.is_link(name) => Err(Errno::LOOP.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn is_link(&self, name: &OsStr) -> bool {
        fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// Opens a folder below this one, and creates missing folders.
    pub(crate) fn create_dirs(&self, below: &Path) -> io::Result<Self> {
        match self.open_dir(below) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        let mut folder = self.clone();
        for name in names(below)? {
            match fs::mkdirat(&folder.fd, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = folder.enter(name)?;
        }
        Ok(folder)
    }

    fn at<'a>(&self, below: &'a Path) -> io::Result<(Self, &'a OsStr)> {
        let (folder, name) = parts(below)?;
        Ok((self.open_dir(folder)?, name))
    }

    /// Returns the properties of a path. A link at its end is not followed.
    pub(crate) fn facts(&self, below: &Path) -> io::Result<Facts> {
        if below.as_os_str().is_empty() {
            return Ok(facts(&fs::fstat(&self.fd)?));
        }
        let (folder, name) = self.at(below)?;
        Ok(facts(&fs::statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    /// Opens a regular file for reading and returns its properties. Anything else is not opened, because that could wait for
    /// ever or have an effect.
    pub(crate) fn open_file(&self, below: &Path) -> io::Result<(File, Facts)> {
        let (folder, name) = self.at(below)?;
        folder.open_regular(name, OFlags::RDONLY)
    }

    fn open_regular(&self, name: &OsStr, access: OFlags) -> io::Result<(File, Facts)> {
        let check = |stat: &Stat| {
            let facts = facts(stat);
            match facts.kind {
                Kind::File => Ok(facts),
                Kind::Link => Err(Errno::LOOP.into()),
                kind @ (Kind::Folder | Kind::Other) => Err(not_regular(kind)),
            }
        };
        check(&fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?)?;
        let file = File::from(fs::openat(&self.fd, name, access | FILE_FLAGS, Mode::empty())?);
        // The name may have another file since.
        let facts = check(&fs::fstat(&file)?)?;
        Ok((file, facts))
    }

    /// Returns the target of a link.
    pub(crate) fn read_link(&self, below: &Path) -> io::Result<PathBuf> {
        let (folder, name) = self.at(below)?;
        let target = fs::readlinkat(&folder.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()).into())
    }

    /// Returns at most `limit` entries of a folder, ordered by name, and whether they are all of them.
    pub(crate) fn first_items(&self, below: &Path, limit: usize) -> io::Result<(Vec<Item>, bool)> {
        let folder = self.open_dir(below)?;
        let mut items = Vec::new();
        for entry in fs::Dir::new(folder.readable()?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report it.
                FileType::Unknown => match fs::statat(&folder.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => facts(&stat).kind,
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                known => kind(known),
            };
            if items.len() == limit {
                return Ok((sorted(items), false));
            }
            items.push(Item { name: name.to_owned(), kind });
        }
        Ok((sorted(items), true))
    }

    /// Creates a file that must not exist yet.
    pub(crate) fn create_file(&self, below: &Path, new: NewFile) -> io::Result<File> {
        let (folder, name) = self.at(below)?;
        folder.create(name, new)
    }

    fn create(&self, name: &OsStr, new: NewFile) -> io::Result<File> {
        let mode = match new {
            NewFile::Usual => 0o666,
            NewFile::Private => 0o600,
        };
        let flags = FILE_FLAGS | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        Ok(fs::openat(&self.fd, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Creates a symlink at `below`.
    pub(crate) fn create_link(&self, target: &Path, below: &Path) -> io::Result<()> {
        let (folder, name) = self.at(below)?;
        Ok(fs::symlinkat(target, &folder.fd, name)?)
    }

    /// Renames a file, and replaces the file at `to`.
    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((old, old_name), (new, new_name)) = (self.at(from)?, self.at(to)?);
        fs::renameat(&old.fd, old_name, &new.fd, new_name)?;
        new.sync();
        Ok(())
    }

    /// Removes a file or link.
    pub(crate) fn remove_file(&self, below: &Path) -> io::Result<()> {
        let (folder, name) = self.at(below)?;
        Ok(fs::unlinkat(&folder.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub(crate) fn remove_dir(&self, below: &Path) -> io::Result<()> {
        let (folder, name) = self.at(below)?;
        Ok(fs::unlinkat(&folder.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Writes `content` beside `below` and creates missing folders. [`Staged::commit`] puts it in place of the file. It gets the
    /// permissions, the owner and the extended attributes of the file at `like`, which is `below` by default.
    ///
    /// # Errors
    /// Returns the error of the operating system. The old file is unchanged.
    pub(crate) fn stage(&self, below: &Path, content: &[u8], like: Option<&Path>) -> io::Result<Staged> {
        let (folder, name) = parts(below)?;
        let folder = self.create_dirs(folder)?;
        let old = match like {
            Some(like) => {
                let (folder, name) = self.at(like)?;
                folder.writable(name)?
            }
            None => folder.writable(name)?,
        };
        let (mut file, new) = folder.with_new_name(Path::new(""), ".looptree-", |folder, path| {
            folder.create(path.as_os_str(), NewFile::Usual)
        })?;
        let staged = Staged { folder, new: Some(new), name: name.to_owned() };
        write(&mut file, content, old.as_ref())?;
        Ok(staged)
    }

    /// Checks that the file at `below` is not read-only.
    pub(crate) fn check_writable(&self, below: &Path) -> io::Result<()> {
        let (folder, name) = self.at(below)?;
        folder.writable(name)?;
        Ok(())
    }

    /// Opens the file at `name` for writing, if there is one. A rename would replace a read-only file as well.
    fn writable(&self, name: &OsStr) -> io::Result<Option<File>> {
        match self.open_regular(name, OFlags::WRONLY) {
            Ok((file, _)) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a rename durable. Some file systems do not support this for folders; the content is durable without it.
    fn sync(&self) {
        if let Ok(folder) = self.readable() {
            let _ = fs::fsync(folder);
        }
    }

    /// Opens the folder itself for reading.
    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fs::openat(&self.fd, ".", flags, Mode::empty())?)
    }
}

/// A content that was written beside its file and flushed to the disk. It is removed when it is dropped before it has taken the
/// place of the file.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: Dir,
    new: Option<PathBuf>,
    name: OsString,
}

impl Staged {
    /// Replaces the file in one step.
    ///
    /// # Errors
    /// Returns the error of the operating system. The old file is then unchanged.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        if let Some(new) = &self.new {
            fs::renameat(&self.folder.fd, new, &self.folder.fd, &self.name)?;
            self.new = None;
            self.folder.sync();
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            let _ = fs::unlinkat(&self.folder.fd, new, AtFlags::empty());
        }
    }
}

fn write(file: &mut File, content: &[u8], old: Option<&File>) -> io::Result<()> {
    file.write_all(content)?;
    if let Some(old) = old {
        let stat = fs::fstat(old)?;
        // Only a privileged process can change the owner; for others, owner and group are usually right already.
        let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        let _ = fs::fchown(&*file, Some(owner), Some(group));
        // As with a write into the file itself, the new content does not get the rights of an owner or a group.
        let mode = Mode::from_raw_mode(stat.st_mode) - (Mode::SUID | Mode::SGID);
        fs::fchmod(&*file, mode)?;
        xattrs::copy(old, file);
    }
    file.sync_all()
}

fn kind(of: FileType) -> Kind {
    match of {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the types of the fields differ between systems"
)]
fn facts(stat: &Stat) -> Facts {
    Facts {
        kind: kind(FileType::from_raw_mode(stat.st_mode)),
        bytes: u64::try_from(stat.st_size).unwrap_or_default(),
        executable: stat.st_mode & 0o111 != 0,
        identity: Identity { device: stat.st_dev as u64, inode: stat.st_ino as u64 },
    }
}
