//! The folder in which git stores the data of one worktree: its current commit, its index and its place.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::BranchWorkspaceError;

/// The data of one worktree, in `worktrees` in the git folder of its repository.
#[derive(Debug)]
pub(super) struct Administration {
    path: PathBuf,
}

impl Administration {
    /// Creates the data of the worktree `tree`, as `git worktree add` does, without running hooks.
    pub(super) fn add(
        common: &Path,
        tree: &Path,
        commit: &str,
        index: &Path,
    ) -> Result<Self, BranchWorkspaceError> {
        let above = common.join("worktrees");
        let name = tree.parent().and_then(Path::file_name).unwrap_or(tree.as_os_str());
        let path = above.join(name);
        let dot_git = tree.join(".git");
        let write = || -> io::Result<()> {
            let folder = Folder::create(common, &path)?;
            folder.file("commondir")?.write_all(b"../..\n")?;
            folder.file("gitdir")?.write_all(&line(b"", &dot_git))?;
            folder.file("HEAD")?.write_all(format!("{commit}\n").as_bytes())?;
            io::copy(&mut File::open(index)?, &mut folder.file("index")?)?;
            File::create_new(&dot_git)?.write_all(&line(b"gitdir: ", &path))
        };
        write().map_err(|e| BranchWorkspaceError::io("made", &path, e))?;
        Ok(Self { path })
    }

    pub(super) fn remove(self) -> Result<(), BranchWorkspaceError> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BranchWorkspaceError::io("removed", &self.path, error))
            }
            _ => Ok(()),
        }
    }
}

fn line(before: &[u8], path: &Path) -> Vec<u8> {
    let mut line = before.to_vec();
    line.extend(path.as_os_str().as_encoded_bytes());
    line.push(b'\n');
    line
}

/// A new folder. Files are created relative to it, so a link that replaces a folder above it has no effect.
#[cfg(unix)]
struct Folder(std::os::fd::OwnedFd);

#[cfg(unix)]
impl Folder {
    /// Creates `common/worktrees/name`, and `worktrees` if it is missing. Neither may be a link.
    fn create(common: &Path, path: &Path) -> io::Result<Self> {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let common = openat(CWD, common, flags, Mode::empty())?;
        match mkdirat(&common, "worktrees", Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let above = openat(&common, "worktrees", flags, Mode::empty())?;
        let name = path.file_name().unwrap_or_default();
        mkdirat(&above, name, Mode::from_raw_mode(0o777))?;
        Ok(Self(openat(&above, name, flags, Mode::empty())?))
    }

    fn file(&self, name: &str) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};

        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?.into())
    }
}

#[cfg(not(unix))]
struct Folder(PathBuf);

#[cfg(not(unix))]
impl Folder {
    fn create(_: &Path, path: &Path) -> io::Result<Self> {
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above)?;
        }
        std::fs::create_dir(path)?;
        Ok(Self(path.to_path_buf()))
    }

    fn file(&self, name: &str) -> io::Result<File> {
        File::create_new(self.0.join(name))
    }
}
