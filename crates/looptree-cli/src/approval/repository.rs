//! Whether git runs other programs in a repository.

use std::path::Path;

use looptree::tools::bounded::BoundedFolder;

/// The longest settings of a repository that are read, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Names in the settings of a repository with which `git status`, `diff`, `log` and the like run a program or read further settings.
const NAMES: [&str; 10] = [
    "include",
    "fsmonitor",
    "hookspath",
    "external",
    "textconv",
    "filter",
    "pager",
    "gpg",
    "worktreeconfig",
    "partialclone",
];

/// Returns whether the directory is in a repository whose data is in a folder `.git`, which no file tool changes, and whose settings
/// name no program. Without a repository, git compares any two files.
pub(super) fn is_plain(directory: &Path) -> bool {
    for folder in directory.ancestors() {
        let git = folder.join(".git");
        match std::fs::symlink_metadata(&git) {
            Ok(found) => return found.is_dir() && has_plain_settings(&git),
            // Git takes a folder with these for a repository, and a file tool can make them.
            Err(_) if ["HEAD", "objects", "refs"].iter().any(|name| folder.join(name).exists()) => {
                return false;
            }
            Err(_) => {}
        }
    }
    false
}

fn has_plain_settings(git: &Path) -> bool {
    let settings = BoundedFolder::open(git).and_then(|git| git.read("config", MAX_BYTES));
    let is_plain = settings.is_ok_and(|read| {
        let is_whole = !read.truncated;
        let text = read.into_text().to_lowercase();
        is_whole && NAMES.iter().all(|name| !text.contains(name))
    });
    is_plain && !git.join("commondir").exists()
}
