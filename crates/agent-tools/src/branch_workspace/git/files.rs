//! Refuses repositories with files that git would wait for or read for too long.
//!
//! Git opens its files without a look at their kind. A pipe in the place of one blocks it until the time limit.

use std::fs::Metadata;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::BranchWorkspaceError;
use crate::dir::Dir;

/// The maximum size of a file with settings or with the name of a place: 1 MiB.
pub(super) const MAX_SETTINGS_BYTES: u64 = 1 << 20;

/// The maximum number of entries to look at. Git waits for at most its time limit on the entries behind it.
const MAX_ENTRIES: usize = 2_000_000;

/// The files of a git folder with settings or names of places. Git reads them as a whole.
const SETTINGS: [&str; 5] = ["HEAD", "commondir", "config", "config.worktree", "gitdir"];

/// The folders of a git folder that git reads at any depth.
const READ: [&str; 4] = ["info", "objects", "refs", "worktrees"];

/// The files of a working tree that git reads in every folder.
const OF_TREE: [&str; 4] = [".git", ".gitattributes", ".gitignore", ".gitmodules"];

/// Checks the files that git reads to find the repository of `origin` and its commits.
pub(super) fn check_repository(origin: &Path) -> Result<(), BranchWorkspaceError> {
    let mut left = MAX_ENTRIES;
    for folder in origin.ancestors() {
        let dot_git = folder.join(".git");
        match std::fs::symlink_metadata(&dot_git) {
            Ok(metadata) if metadata.is_symlink() => {
                let reason = "its .git leads to a git folder that does not lead back to it";
                return Err(BranchWorkspaceError::Repository { path: origin.to_path_buf(), reason });
            }
            Ok(metadata) => return check_dot_git(&dot_git, &metadata, &mut left),
            // Git also looks whether the folder itself is a git folder.
            Err(_) => check_settings(folder)?,
        }
    }
    Ok(())
}

/// Checks the files in the working tree that git reads when it stores the tree.
pub(super) fn check_tree(top: &Path) -> Result<(), BranchWorkspaceError> {
    let mut left = MAX_ENTRIES;
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder, &mut left) {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let is_read = OF_TREE.iter().any(|known| name.eq_ignore_ascii_case(known));
            if is_read && !kind.is_file() && !kind.is_dir() && !kind.is_symlink() {
                return Err(BranchWorkspaceError::SpecialFile { path: entry.path() });
            }
            if name == ".git" {
                // The repository of the top was checked before.
                if folder != top
                    && let Ok(metadata) = std::fs::symlink_metadata(entry.path())
                {
                    check_dot_git(&entry.path(), &metadata, &mut left)?;
                }
            } else if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}

/// Checks the git folder that `.git` is or names, and the common folder of that.
fn check_dot_git(dot_git: &Path, metadata: &Metadata, left: &mut usize) -> Result<(), BranchWorkspaceError> {
    let above = dot_git.parent().unwrap_or(dot_git);
    let own = if metadata.is_dir() {
        dot_git.to_path_buf()
    } else {
        check_file(dot_git)?;
        let Some(place) = place(above, ".git") else { return Ok(()) };
        above.join(place)
    };
    check_git_folder(&own, left)?;
    match place(&own, "commondir") {
        Some(common) => check_git_folder(&own.join(common), left),
        None => Ok(()),
    }
}

/// Reads the name of a place from a file that was checked.
fn place(folder: &Path, name: &str) -> Option<PathBuf> {
    let (file, _) = Dir::open(folder).ok()?.open_file(Path::new(name)).ok()?;
    let mut text = String::new();
    file.take(MAX_SETTINGS_BYTES).read_to_string(&mut text).ok()?;
    let text = text.trim_end_matches(['\n', '\r']);
    Some(PathBuf::from(text.strip_prefix("gitdir: ").unwrap_or(text)))
}

fn check_git_folder(folder: &Path, left: &mut usize) -> Result<(), BranchWorkspaceError> {
    check_settings(folder)?;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inner) = folders.pop() {
        for entry in entries(&inner, left) {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if inner != folder || READ.iter().any(|known| entry.file_name() == *known) {
                    folders.push(entry.path());
                }
            } else if !kind.is_file() {
                check_kind(&entry.path())?;
            }
        }
    }
    Ok(())
}

fn check_settings(folder: &Path) -> Result<(), BranchWorkspaceError> {
    SETTINGS.iter().try_for_each(|name| check_file(&folder.join(name)))
}

/// Checks the kind and the size of a file, which may be missing.
fn check_file(path: &Path) -> Result<(), BranchWorkspaceError> {
    match check_kind(path)? {
        Some(metadata) if metadata.is_file() && metadata.len() > MAX_SETTINGS_BYTES => {
            Err(BranchWorkspaceError::LargeSettings { path: path.to_path_buf(), limit: MAX_SETTINGS_BYTES })
        }
        _ => Ok(()),
    }
}

/// Returns an error for anything but a file, a folder, or a link to one of them.
fn check_kind(path: &Path) -> Result<Option<Metadata>, BranchWorkspaceError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => Ok(Some(metadata)),
        Ok(_) => Err(BranchWorkspaceError::SpecialFile { path: path.to_path_buf() }),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(BranchWorkspaceError::io("read", path, error)),
    }
}

/// Returns the entries of a folder, as long as the maximum number is not reached. A folder that cannot be read has none.
fn entries(folder: &Path, left: &mut usize) -> Vec<std::fs::DirEntry> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries: Vec<_> = entries.flatten().take(*left).collect();
    *left -= entries.len();
    entries
}
