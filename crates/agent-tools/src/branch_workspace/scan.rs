//! Going through a folder, within bounds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, Walk, WalkBuilder};

use super::error::BranchWorkspaceError;
use super::manifest::{Entry, Fingerprints, Manifest};

/// The maximum size of a folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

/// The contents of a folder, without `.git`, which is never part of the changes.
#[derive(Debug, Clone)]
pub(super) enum Rules {
    All,
    /// All but what `.gitignore` and `.ignore` exclude: those inside, and those above the origin.
    Ignoring(Above),
}

/// The rules of the folders above an origin, which a copy elsewhere no longer has above it.
#[derive(Debug, Clone, Default)]
pub(super) struct Above {
    origin: PathBuf,
    matchers: Arc<Vec<Gitignore>>,
}

impl Above {
    /// Of the folders up to the repository's; none where the origin is the repository, or in none.
    pub(super) fn of(origin: &Path) -> Self {
        let mut folders = Vec::new();
        let mut in_repository = false;
        for folder in origin.ancestors() {
            if folder != origin {
                folders.push(folder);
            }
            if folder.join(".git").exists() {
                in_repository = true;
                break;
            }
        }
        let folders = if in_repository { folders } else { Vec::new() };
        let matcher = |folder: &&Path| {
            let mut builder = GitignoreBuilder::new(folder);
            // A file that cannot be read excludes nothing.
            drop(builder.add(folder.join(".gitignore")));
            builder.build().ok()
        };
        Self {
            origin: origin.to_path_buf(),
            matchers: Arc::new(folders.iter().filter_map(matcher).collect()),
        }
    }

    /// No rules.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    fn excludes(&self, relative: &Path) -> bool {
        let path = self.origin.join(relative);
        // The innermost folder that says something counts.
        let said = self.matchers.iter().map(|m| m.matched_path_or_any_parents(&path, false));
        said.into_iter().find(|m| !m.is_none()).is_some_and(|m| m.is_ignore())
    }
}

/// Counts what was found.
#[derive(Debug)]
pub(super) struct Counter<'a> {
    root: &'a Path,
    limits: Limits,
    files: usize,
    bytes: u64,
}

impl<'a> Counter<'a> {
    pub(super) fn new(root: &'a Path, limits: Limits) -> Self {
        Self { root, limits, files: 0, bytes: 0 }
    }

    pub(super) fn file(&mut self) -> Result<(), BranchWorkspaceError> {
        self.files += 1;
        if self.files > self.limits.files {
            let limit = u64::try_from(self.limits.files).unwrap_or(u64::MAX);
            return Err(self.too_large("files", limit));
        }
        Ok(())
    }

    pub(super) fn bytes(&mut self, more: u64) -> Result<(), BranchWorkspaceError> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > self.limits.bytes { Err(self.too_large("bytes", self.limits.bytes)) } else { Ok(()) }
    }

    /// The number of remaining bytes.
    pub(super) fn room(&self) -> u64 {
        self.limits.bytes.saturating_sub(self.bytes)
    }

    fn too_large(&self, what: &'static str, limit: u64) -> BranchWorkspaceError {
        BranchWorkspaceError::TooLarge { path: self.root.to_path_buf(), what, limit }
    }
}

/// A walk over all that the rules show, folders included, sorted. Links are not followed. `with_git` shows `.git`, too.
pub(super) fn walk(root: &Path, rules: &Rules, with_git: bool) -> Walk {
    let ignoring = matches!(rules, Rules::Ignoring(_));
    let above = match rules {
        Rules::Ignoring(above) => above.clone(),
        Rules::All => Above::nothing(),
    };
    let from = root.to_path_buf();
    WalkBuilder::new(root)
        .standard_filters(false)
        .ignore(ignoring)
        .git_ignore(ignoring)
        .git_exclude(ignoring)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_path(Path::cmp)
        .filter_entry(move |entry| {
            let relative = entry.path().strip_prefix(&from).unwrap_or(entry.path());
            entry.depth() == 0 || ((with_git || !is_git(entry)) && !(ignoring && above.excludes(relative)))
        })
        .build()
}

/// The repository itself, in whatever depth: a folder, or the file that a worktree has.
fn is_git(entry: &DirEntry) -> bool {
    entry.file_name() == ".git"
}

/// What an entry's path is called below the root.
pub(super) fn relative(root: &Path, entry: &DirEntry) -> PathBuf {
    entry.path().strip_prefix(root).unwrap_or(entry.path()).to_path_buf()
}

pub(super) fn walked(
    root: &Path,
    entry: Result<DirEntry, ignore::Error>,
) -> Result<DirEntry, BranchWorkspaceError> {
    entry.map_err(|e| {
        let source = e.into_io_error().unwrap_or_else(|| io::Error::other("a walk failed"));
        BranchWorkspaceError::io("read", root, source)
    })
}

/// The content of a folder.
pub(super) fn scan(
    root: &Path,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
) -> Result<Manifest, BranchWorkspaceError> {
    scan_again(root, rules, limits, prints, &Manifest::default())
}

/// What is in a folder, and of what was there before also that which the rules no longer show.
pub(super) fn scan_again(
    root: &Path,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
    before: &Manifest,
) -> Result<Manifest, BranchWorkspaceError> {
    let mut counter = Counter::new(root, limits);
    let mut found = Manifest::default();
    let mut look = |path: PathBuf, found: &mut Manifest| {
        let real = root.join(&path);
        let failed = |e| BranchWorkspaceError::io("read", &real, e);
        // Counted before it is read: reading what is too large takes long.
        let meta = match std::fs::symlink_metadata(&real) {
            Ok(meta) => meta,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(e) => return Err(failed(e)),
        };
        if !meta.is_file() && !meta.file_type().is_symlink() {
            return Ok(());
        }
        counter.file()?;
        counter.bytes(if meta.is_file() { meta.len() } else { 0 })?;
        if let Some(entry) = prints.entry(&real).map_err(failed)?
            && entry != Entry::Other
        {
            found.0.insert(path, entry);
        }
        Ok(())
    };
    for entry in walk(root, rules, false) {
        let entry = walked(root, entry)?;
        if !entry.file_type().is_some_and(|t| t.is_dir()) {
            look(relative(root, &entry), &mut found)?;
        }
    }
    for path in before.0.keys() {
        // Behind a link that took a folder's place is not what was there before.
        if !found.0.contains_key(path) && !is_behind_link(root, path) {
            look(path.clone(), &mut found)?;
        }
    }
    Ok(found)
}

/// Whether a folder on the way to this path is a link.
pub(super) fn is_behind_link(root: &Path, relative: &Path) -> bool {
    let folders = relative.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty());
    folders
        .into_iter()
        .any(|p| std::fs::symlink_metadata(root.join(p)).is_ok_and(|m| m.file_type().is_symlink()))
}
