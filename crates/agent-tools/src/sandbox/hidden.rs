//! The files of the system that other users cannot read.
//!
//! For most users the kernel refuses to read them. Root owns them, and dropping capabilities does not take the rights of
//! an owner, so for root they are left out of the roots: password hashes, private keys, `sudoers`.

use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The folders with settings and software of the machine. The other folders of the system belong to packages, whose files
/// are public, and searching all of them would take seconds.
const SEARCHED: [&str; 3] = ["/etc", "/opt", "/usr/local/etc"];

/// How deep the folders are searched.
const DEPTH: usize = 6;

/// The permission bits that let other users read a file, and list and enter a folder.
const READ: u32 = 0o4;
const READ_AND_ENTER: u32 = 0o5;

/// Returns the files and folders in a root of the system that only root can read, if this process is root.
pub(super) fn below(root: &Path) -> Vec<PathBuf> {
    let mut hidden = Vec::new();
    if rustix::process::geteuid().is_root() {
        for folder in SEARCHED.iter().map(Path::new).filter(|folder| folder.starts_with(root)) {
            search(folder, DEPTH, &mut hidden);
        }
    }
    hidden
}

fn search(folder: &Path, depth: usize, hidden: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(metadata) = readable_by_others(&entry) else {
            hidden.push(entry.path());
            continue;
        };
        if metadata.is_dir() && depth > 1 {
            search(&entry.path(), depth.saturating_sub(1), hidden);
        }
    }
}

/// Returns the metadata of an entry that other users can read. Links have no permissions of their own.
fn readable_by_others(entry: &DirEntry) -> Option<Metadata> {
    let metadata = entry.metadata().ok()?;
    let needed = if metadata.is_dir() { READ_AND_ENTER } else { READ };
    (metadata.is_symlink() || metadata.permissions().mode() & needed == needed).then_some(metadata)
}
