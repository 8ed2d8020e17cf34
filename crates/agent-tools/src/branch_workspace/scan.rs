//! Walks a folder with limits.

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
    /// All files except those that `.gitignore` and `.ignore` exclude, including the rules of the folders above the
    /// origin.
    Ignoring(Above),
}

/// The rules of the folders above an origin, which do not apply to a copy at another place.
#[derive(Debug, Clone, Default)]
pub(super) struct Above {
    origin: PathBuf,
    matchers: Arc<Vec<Gitignore>>,
}

impl Above {
    /// Reads the rules of the folders up to the root of the repository. There are none if the origin is the root or in
    /// no repository.
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
            // A file that cannot be read has no effect.
            drop(builder.add(folder.join(".gitignore")));
            builder.build().ok()
        };
        Self {
            origin: origin.to_path_buf(),
            matchers: Arc::new(folders.iter().filter_map(matcher).collect()),
        }
    }

    /// Returns no rules.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    fn excludes(&self, relative: &Path) -> bool {
        let path = self.origin.join(relative);
        // The innermost folder with a matching rule decides.
        let said = self.matchers.iter().map(|m| m.matched_path_or_any_parents(&path, false));
        said.into_iter().find(|m| !m.is_none()).is_some_and(|m| m.is_ignore())
    }
}

/// Counts files and bytes and checks the limits.
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

/// Walks all entries that the rules include, with folders, sorted by path. Links are not followed. `with_git` includes
/// `.git`.
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

/// Returns whether an entry is the repository itself, at any depth: a folder, or a file in a worktree.
fn is_git(entry: &DirEntry) -> bool {
    entry.file_name() == ".git"
}

/// Returns the path of an entry relative to the root.
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

/// Returns the content of a folder.
pub(super) fn scan(
    root: &Path,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
) -> Result<Manifest, BranchWorkspaceError> {
    scan_again(root, rules, limits, prints, &Manifest::default())
}

/// Returns the content of a folder, including earlier files that the rules now exclude.
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
        // The size is checked before the file is read, because reading a large file takes long.
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
        // A path behind a link that replaced a folder is not the earlier file.
        if !found.0.contains_key(path) && !is_behind_link(root, path) {
            look(path.clone(), &mut found)?;
        }
    }
    Ok(found)
}

/// Returns whether a folder of this path is a link.
pub(super) fn is_behind_link(root: &Path, relative: &Path) -> bool {
    let folders = relative.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty());
    folders
        .into_iter()
        .any(|p| std::fs::symlink_metadata(root.join(p)).is_ok_and(|m| m.file_type().is_symlink()))
}
