//! Walking a folder, as `list_files` and `search` do.

use std::path::Path;

use ignore::{DirEntry, Walk, WalkBuilder};

/// Folders that are never entered, at any depth: what tools build and fetch, and git's own.
pub(crate) const SKIPPED_FOLDERS: [&str; 3] = [".git", "node_modules", "target"];

/// A walk below `folder`, sorted by path. What `.gitignore` and `.ignore` exclude is left out, also outside a git
/// repository; hidden files are not. Symlinks are not followed.
pub(crate) fn walk(folder: &Path, max_depth: Option<usize>) -> Walk {
    WalkBuilder::new(folder)
        .hidden(false)
        .require_git(false)
        // The same files on every machine: one's own global excludes do not count.
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

/// Whether it is a regular file itself, not a link to one.
pub(crate) fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}
