//! Walks a folder with limits.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::gitignore::Gitignore;

use super::Folder;
use super::error::BranchWorkspaceError;
use super::manifest::{Entry, Fingerprints, Manifest};
use crate::dir::{Dir, Kind, is_link_error};
use crate::ignore_rules::{Tally, rules_of};
use crate::walk::{Found, IgnoreFiles, Walk};
use crate::workspace::{is_repository, is_settings};

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
    /// The path of the origin relative to a folder, and the rules of this folder.
    matchers: Arc<Vec<(PathBuf, Gitignore)>>,
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
        let mut tally = Tally::default();
        let mut matcher = |folder: &&Path| {
            let (system, below) = Dir::whole_system(folder).ok()?;
            // A file that cannot be read has no effect, and neither has a line that exceeds a limit.
            let rules = rules_of(&system, &below.join(".gitignore"), &mut tally).ok()?;
            Some((origin.strip_prefix(folder).ok()?.to_path_buf(), rules))
        };
        Self { matchers: Arc::new(folders.iter().filter_map(&mut matcher).collect()) }
    }

    /// Returns no rules.
    pub(super) fn nothing() -> Self {
        Self::default()
    }

    fn excludes(&self, relative: &Path) -> bool {
        // The innermost folder with a matching rule decides.
        let matches = self
            .matchers
            .iter()
            .map(|(origin, rules)| rules.matched_path_or_any_parents(origin.join(relative), false));
        matches.into_iter().find(|m| !m.is_none()).is_some_and(|m| m.is_ignore())
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
/// `.git`. Protected paths are left out.
pub(super) fn walk<'a>(folder: &'a Folder, rules: &'a Rules, with_git: bool) -> Walk<'a> {
    let ignore_files = match rules {
        Rules::Ignoring(_) => IgnoreFiles::Respected,
        Rules::All => IgnoreFiles::Disregarded,
    };
    Walk::new(&folder.dir, Path::new(""), ignore_files).with_filter(move |below, _| {
        let is_git = below.file_name().is_some_and(is_repository);
        let excluded = match rules {
            Rules::Ignoring(above) => above.excludes(below),
            Rules::All => false,
        };
        (with_git || !is_git) && !excluded && !folder.workspace.hides(below)
    })
}

pub(super) fn walked(root: &Path, entry: io::Result<Found>) -> Result<Found, BranchWorkspaceError> {
    entry.map_err(|source| BranchWorkspaceError::io("read", root, source))
}

/// Returns the content of a folder.
pub(super) fn scan(
    folder: &Folder,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
) -> Result<Manifest, BranchWorkspaceError> {
    scan_again(folder, rules, limits, prints, &Manifest::default())
}

/// Returns the content of a folder, including earlier files that the rules now exclude.
pub(super) fn scan_again(
    folder: &Folder,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
    before: &Manifest,
) -> Result<Manifest, BranchWorkspaceError> {
    let mut counter = Counter::new(&folder.real, limits);
    let mut found = Manifest::default();
    let mut look = |path: &Path, found: &mut Manifest| {
        if path.iter().any(is_settings) {
            return Ok(());
        }
        let failed = |e| BranchWorkspaceError::io("read", &folder.real.join(path), e);
        // The size is checked before the file is read, because reading a large file takes long.
        let facts = match folder.dir.facts(path) {
            Ok(facts) => facts,
            Err(e) if is_missing(&e) => return Ok(()),
            Err(e) => return Err(failed(e)),
        };
        if !matches!(facts.kind, Kind::File | Kind::Link) {
            return Ok(());
        }
        counter.file()?;
        counter.bytes(if facts.kind == Kind::File { facts.bytes } else { 0 })?;
        if let Some(entry) = prints.entry(&folder.dir, path).map_err(failed)?
            && entry != Entry::Other
        {
            found.0.insert(path.to_path_buf(), entry);
        }
        Ok(())
    };
    for entry in walk(folder, rules, false) {
        let entry = walked(&folder.real, entry)?;
        if entry.kind != Kind::Folder {
            look(&entry.below, &mut found)?;
        }
    }
    for path in before.0.keys() {
        if !found.0.contains_key(path) {
            look(path, &mut found)?;
        }
    }
    Ok(found)
}

/// Returns whether an error means that a path does not exist. A path below a file does not exist, and a path behind a link
/// that replaced a folder is not the earlier file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) || is_link_error(error)
}
