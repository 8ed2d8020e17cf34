//! The folders of a project: the working directory and those above it, as far as they belong to the user.

use std::path::{Path, PathBuf};

/// The folders whose files can apply to a working directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProjectFolders {
    /// The working directory and those above it, up to the root of the repository; without a repository the directory alone.
    pub(crate) folders: Vec<PathBuf>,
    /// A folder that others can write to and that keeps the directory from being a part of a repository above it.
    pub(crate) foreign: Option<PathBuf>,
}

/// Returns the folders of a project. A folder above the working directory counts only if it belongs to the user or root and no
/// other user can write to it: anybody could put a repository into a folder such as `/tmp`.
pub(crate) fn project_folders(root: &Path) -> ProjectFolders {
    let mut folders = vec![root.to_owned()];
    if root.join(".git").exists() {
        return ProjectFolders { folders, foreign: None };
    }
    for folder in root.ancestors().skip(1) {
        if !belongs_to_user(folder) {
            let is_in_repository = folder.ancestors().any(|above| above.join(".git").exists());
            let foreign = is_in_repository.then(|| folder.to_owned());
            return ProjectFolders { folders: vec![root.to_owned()], foreign };
        }
        folders.push(folder.to_owned());
        if folder.join(".git").exists() {
            return ProjectFolders { folders, foreign: None };
        }
    }
    ProjectFolders { folders: vec![root.to_owned()], foreign: None }
}

impl ProjectFolders {
    /// Returns the paths with this name in the folders, the nearest first. In a folder above the working directory, each part of the
    /// name must belong to the user, too.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl DoubleEndedIterator<Item = PathBuf> + 'a {
        self.folders.iter().enumerate().filter_map(move |(above, folder)| {
            let path = folder.join(name);
            let mut parts = path.ancestors().take_while(|part| *part != folder);
            (above == 0 || parts.all(belongs_to_user)).then_some(path)
        })
    }
}

/// Returns whether only the user and root can change what a path has.
#[cfg(unix)]
fn belongs_to_user(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // The entry itself: a link of another user is not followed.
    let Ok(facts) = std::fs::symlink_metadata(path) else { return false };
    let user = rustix::process::geteuid().as_raw();
    if facts.uid() != user && facts.uid() != 0 {
        return false;
    }
    // The mode of a link means nothing.
    let mode = if facts.is_symlink() { 0 } else { facts.mode() };
    mode & 0o002 == 0 && (mode & 0o020 == 0 || (facts.gid() == user && is_private_group(facts.gid())))
}

/// There is no portable owner of a file; the folder that the user works in decides.
#[cfg(not(unix))]
fn belongs_to_user(_path: &Path) -> bool {
    true
}

/// Returns whether a group is that of one user alone, as many systems create one for each account.
#[cfg(unix)]
fn is_private_group(gid: u32) -> bool {
    let (Ok(users), Ok(groups)) = (lines("/etc/passwd"), lines("/etc/group")) else { return false };
    let field = |line: &str, at: usize| line.split(':').nth(at).unwrap_or_default().to_owned();
    let id = gid.to_string();
    let of_group: Vec<String> =
        users.iter().filter(|line| field(line, 3) == id).map(|line| field(line, 0)).collect();
    let [user] = &of_group[..] else { return false };
    let mut named = groups.iter().filter(|line| field(line, 2) == id);
    named.all(|line| field(line, 3).split(',').all(|member| member.is_empty() || member == user))
}

#[cfg(unix)]
fn lines(path: &str) -> std::io::Result<Vec<String>> {
    Ok(std::fs::read_to_string(path)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
