//! Walks folders for `list_files` and `search`.

use std::path::Path;

use ignore::{DirEntry, Walk, WalkBuilder};

/// Folders that are skipped at any depth: build output, dependencies, and the repository of git.
pub(crate) const SKIPPED_FOLDERS: [&str; 3] = [".git", "node_modules", "target"];

/// Walks `folder`, sorted by path. Skips files that `.gitignore` and `.ignore` exclude, also outside of a git
/// repository. Includes hidden files and does not follow symlinks.
pub(crate) fn walk(folder: &Path, max_depth: Option<usize>) -> Walk {
    WalkBuilder::new(folder)
        .hidden(false)
        .require_git(false)
        // Ignores the global excludes of the user, so that the result is the same on every machine.
        .git_global(false)
        .follow_links(false)
        .max_depth(max_depth)
        .sort_by_file_path(Path::cmp)
        .filter_entry(|entry| entry.depth() == 0 || !is_skipped(entry))
        .build()
}

fn is_skipped(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
        && SKIPPED_FOLDERS.iter().any(|name| entry.file_name() == *name)
}

/// Returns whether the entry is a regular file, and not a link to one.
pub(crate) fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}
