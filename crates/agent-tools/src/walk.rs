//! Walks folders by descriptor, for `list_files`, `search`, skills and branch workspaces.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use crate::dir::{Dir, Item, Kind};
use crate::ignore_rules::{FolderRules, Tally, is_ignored};

/// Folders that the tools skip at any depth: build output, dependencies, and the repository of git.
pub(crate) const SKIPPED_FOLDERS: [&str; 3] = [".git", "node_modules", "target"];

/// The maximum depth of a walk. A folder below it is an error of the walk.
pub(crate) const MAX_DEPTH: usize = 512;

/// Whether the rules of `.gitignore` and `.ignore` files apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoreFiles {
    Respected,
    Disregarded,
}

/// An entry of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The path relative to the open folder of the walk.
    pub(crate) below: PathBuf,
    pub(crate) kind: Kind,
}

/// A walk over the entries below a folder, sorted by path, a folder before its entries. Includes hidden files and does not
/// follow symlinks. Each folder is opened by itself, so the number of open files does not grow with the depth.
pub(crate) struct Walk<'a> {
    dir: Dir,
    ignore_files: IgnoreFiles,
    max_depth: usize,
    keep: Box<Filter<'a>>,
    /// The folders above the start that have rules.
    above: Vec<(PathBuf, FolderRules)>,
    levels: Vec<Level>,
    failed: Option<io::Error>,
    tally: Tally,
}

/// The condition for entries.
type Filter<'a> = dyn Fn(&Path, Kind) -> bool + 'a;

/// A folder that is being walked.
struct Level {
    below: PathBuf,
    items: vec::IntoIter<Item>,
    rules: Option<FolderRules>,
}

impl<'a> Walk<'a> {
    /// Begins a walk below the folder `start`, which is relative to `dir`. The rules of the folders from `dir` to `start`
    /// apply as well.
    pub(crate) fn new(dir: &Dir, start: &Path, ignore_files: IgnoreFiles) -> Self {
        let mut walk = Self {
            dir: dir.clone(),
            ignore_files,
            max_depth: usize::MAX,
            keep: Box::new(|_, _| true),
            above: Vec::new(),
            levels: Vec::new(),
            failed: None,
            tally: Tally::default(),
        };
        if ignore_files == IgnoreFiles::Respected {
            let mut folders: Vec<&Path> = start.ancestors().skip(1).collect();
            folders.reverse();
            for folder in folders {
                let rules = FolderRules::read(dir, folder, None, &mut walk.tally);
                walk.above.extend(rules.map(|rules| (folder.to_path_buf(), rules)));
            }
        }
        walk.enter(start.to_path_buf());
        walk
    }

    /// Sets the depth below which folders are not entered. The entries of the start are at depth 1.
    pub(crate) fn with_max_depth(mut self, depth: Option<usize>) -> Self {
        self.max_depth = depth.unwrap_or(usize::MAX);
        self
    }

    /// Sets the condition for entries. A folder that does not meet it is not entered. The path is relative to the open folder.
    pub(crate) fn with_filter(mut self, keep: impl Fn(&Path, Kind) -> bool + 'a) -> Self {
        self.keep = Box::new(keep);
        self
    }

    /// Returns the number of lines of ignore files that had no effect so far, because they exceed a limit.
    pub(crate) fn skipped_rules(&self) -> usize {
        self.tally.skipped
    }

    fn enter(&mut self, below: PathBuf) {
        if self.levels.len() >= MAX_DEPTH {
            self.failed =
                Some(io::Error::other(format!("there are more than {MAX_DEPTH} folders in each other")));
            return;
        }
        match self.dir.items(&below) {
            Ok(items) => {
                let rules = (self.ignore_files == IgnoreFiles::Respected)
                    .then(|| FolderRules::read(&self.dir, &below, Some(&items), &mut self.tally))
                    .flatten();
                self.levels.push(Level { below, items: items.into_iter(), rules });
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn is_ignored(&self, below: &Path, kind: Kind) -> bool {
        let above = self.above.iter().map(|(folder, rules)| (folder.as_path(), rules));
        let inner =
            self.levels.iter().filter_map(|level| Some((level.below.as_path(), level.rules.as_ref()?)));
        is_ignored(&above.chain(inner), below, kind)
    }
}

impl Iterator for Walk<'_> {
    type Item = io::Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            let Some(Item { name, kind }) = level.items.next() else {
                let level = self.levels.pop();
                self.tally.leave(level.and_then(|level| level.rules).as_ref());
                continue;
            };
            let below = level.below.join(name);
            if self.is_ignored(&below, kind) || !(self.keep)(&below, kind) {
                continue;
            }
            if kind == Kind::Folder && depth < self.max_depth {
                self.enter(below.clone());
            }
            return Some(Ok(Found { below, kind }));
        }
    }
}

impl fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk")
            .field("dir", &self.dir)
            .field("depth", &self.levels.len())
            .finish_non_exhaustive()
    }
}

/// Returns whether the tools skip a folder of this name.
pub(crate) fn is_skipped(name: &OsStr) -> bool {
    SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped)
}

/// Returns a note about lines of ignore files that had no effect, or nothing if there are none.
pub(crate) fn skipped_note(lines: usize) -> String {
    if lines == 0 {
        return String::new();
    }
    format!("\n({} of ignore files exceed the limits and have no effect)", crate::text::lines(lines))
}
