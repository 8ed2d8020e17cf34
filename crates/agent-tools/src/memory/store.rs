//! The files of the memory.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use agent_core::ToolContext;
use serde_json::Value;

use super::{MAX_DEPTH, MAX_FILE_BYTES, MAX_FILES, MAX_LISTED, MemoryError, ROOT};
use crate::dir::{Dir, Kind};
use crate::workspace::{Access, Intent, Place};
use crate::{PathError, Workspace};

/// The maximum number of files and folders below one that is renamed or deleted; the user can have put more there than
/// [`MAX_FILES`].
const MAX_TREE: usize = 10 * MAX_FILES;

/// The maximum number of levels below a folder that is renamed or deleted.
const MAX_TREE_DEPTH: usize = 2 * MAX_DEPTH;

/// The access of one call.
#[derive(Debug)]
pub(super) struct Store {
    access: Access,
    decided: Option<Value>,
}

/// Returns a path below `/memories` relative to it; `.` for the folder itself.
pub(super) fn relative(path: &str) -> Result<String, MemoryError> {
    let rest = path.strip_prefix(ROOT).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = rest.ok_or_else(|| MemoryError::Root { path: path.to_owned() })?.trim_matches('/');
    Ok(if rest.is_empty() { ".".to_owned() } else { rest.to_owned() })
}

/// Returns a path with `/memories` in front, for the model.
pub(super) fn shown(below: &str) -> String {
    if below == "." { ROOT.to_owned() } else { format!("{ROOT}/{below}") }
}

impl Store {
    pub(super) fn new(workspace: &Workspace, ctx: &ToolContext) -> Self {
        // The paths that the hooks have seen begin with `/memories`, so they are compared here.
        let mut ctx = ctx.clone();
        let decided = ctx.resolved_arguments.take().map(|decided| *decided);
        Self { access: workspace.access(&ctx), decided }
    }

    /// Returns the folder of the memory.
    pub(super) fn locate_root(&self) -> Result<Place, MemoryError> {
        Ok(self.access.locate(".", Intent::List)?)
    }

    /// Checks a path of the argument with this name.
    pub(super) fn locate(&self, argument: &str, path: &str, intent: Intent) -> Result<Place, MemoryError> {
        let place = self.access.locate(&relative(path)?, intent).map_err(|error| named(error, path))?;
        let label = Value::String(shown(&self.access.labels().of(place.real())));
        if self.decided.as_ref().is_some_and(|decided| decided.get(argument) != Some(&label)) {
            return Err(PathError::Changed { path: path.to_owned() }.into());
        }
        Ok(place)
    }

    /// Checks everything below a path that is deleted, or renamed to `target`: a folder must not carry along what the call
    /// cannot access by itself. Returns the number of levels below it.
    pub(super) fn check_tree(
        &self,
        place: &Place,
        path: &str,
        target: Option<&Place>,
    ) -> Result<usize, MemoryError> {
        let failed = |source| MemoryError::Change { path: path.to_owned(), source };
        let check = |place: &Place, rest: &Path, intent: Intent| {
            let label = shown(&self.access.labels().of(&place.real().join(rest)));
            Ok::<_, MemoryError>(self.access.check_below(place, rest, intent, &label)?)
        };
        let mut entries = tree(place).map_err(failed)?;
        entries.push(PathBuf::new());
        let mut height = 0;
        for rest in &entries {
            check(place, rest, Intent::Write)?;
            if let Some(target) = target {
                // Another name can be one under which the file may be read.
                check(place, rest, Intent::Read)?;
                check(target, rest, Intent::Write)?;
                height = height.max(rest.iter().count());
            }
        }
        Ok(height)
    }
}

/// Puts the path of the arguments into an error.
fn named(error: PathError, path: &str) -> MemoryError {
    let path = path.to_owned();
    match error {
        PathError::Outside { .. } => MemoryError::Root { path },
        PathError::Access { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            MemoryError::NotFound { path }
        }
        PathError::Access { source, .. } => PathError::Access { path, source }.into(),
        PathError::IsADirectory { .. } => PathError::IsADirectory { path }.into(),
        PathError::NotRegular { .. } => PathError::NotRegular { path }.into(),
        PathError::Repository { .. } => PathError::Repository { path }.into(),
        PathError::Settings { .. } => PathError::Settings { path }.into(),
        other => other.into(),
    }
}

/// Returns the kind of a path; `None` if it does not exist.
pub(super) fn kind(place: &Place, path: &str) -> Result<Option<Kind>, MemoryError> {
    match place.facts() {
        Ok(facts) => Ok(Some(facts.kind)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(named(error, path)),
    }
}

/// Reads a text file.
pub(super) fn read(place: &Place, path: &str) -> Result<String, MemoryError> {
    let (file, bytes) = place.open_file().map_err(|error| named(error, path))?;
    let mut content = Vec::new();
    if bytes <= MAX_FILE_BYTES {
        let failed = |source| MemoryError::Change { path: path.to_owned(), source };
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    }
    check_size(path, bytes.max(content.len() as u64))?;
    String::from_utf8(content).map_err(|_| MemoryError::NotText { path: path.to_owned() })
}

/// Writes a text file in one step.
pub(super) fn write(place: &Place, path: &str, content: &str) -> Result<(), MemoryError> {
    check_size(path, content.len() as u64)?;
    place.replace(content.as_bytes()).map_err(|error| match error {
        PathError::Access { source, .. } => MemoryError::Change { path: path.to_owned(), source },
        error => error.into(),
    })
}

fn check_size(path: &str, bytes: u64) -> Result<(), MemoryError> {
    if bytes <= MAX_FILE_BYTES { Ok(()) } else { Err(MemoryError::TooLarge { path: path.to_owned(), bytes }) }
}

/// An entry of a listing.
pub(super) struct Listed {
    pub(super) below: PathBuf,
    pub(super) bytes: u64,
    pub(super) is_folder: bool,
}

/// Lists two levels of a folder, without hidden files, and whether the list is complete.
pub(super) fn list(place: &Place) -> io::Result<(Vec<Listed>, bool)> {
    let mut found = Vec::new();
    let done = walk(place.dir(), place.below(), 2, MAX_LISTED, &mut found)?;
    Ok((found, done))
}

/// Returns all entries below a path, also hidden ones: none for a file. The folders before their content.
///
/// # Errors
/// Returns an error if there are more than [`MAX_TREE`] entries or more than [`MAX_TREE_DEPTH`] levels, or if the operating
/// system refuses.
pub(super) fn tree(place: &Place) -> io::Result<Vec<PathBuf>> {
    let is_folder = |kind: Kind| kind == Kind::Folder;
    let mut found = Vec::new();
    if !place.dir().facts(place.below()).is_ok_and(|facts| is_folder(facts.kind)) {
        return Ok(found);
    }
    let mut open = vec![(PathBuf::new(), 0)];
    while let Some((folder, depth)) = open.pop() {
        if depth == MAX_TREE_DEPTH {
            return Err(io::Error::other("the folder is nested too deeply"));
        }
        for item in place.dir().items(&place.below().join(&folder))? {
            if found.len() == MAX_TREE {
                return Err(io::Error::other("the folder has too many files"));
            }
            let below = folder.join(&item.name);
            if is_folder(item.kind) {
                open.push((below.clone(), depth + 1));
            }
            found.push(below);
        }
    }
    Ok(found)
}

/// Checks that a path can be created: with `added` entries beside its missing folders, and with `below` levels below it.
pub(super) fn check_room(
    root: &Place,
    place: &Place,
    path: &str,
    (added, below): (usize, usize),
) -> Result<(), MemoryError> {
    if place.below().iter().count() + below > MAX_DEPTH {
        return Err(MemoryError::TooDeep { path: path.to_owned() });
    }
    let found = tree(root).map_err(|_| MemoryError::Full)?;
    let parents = place.below().ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let missing = parents.filter(|folder| place.dir().facts(folder).is_err()).count();
    if found.len() + missing + added <= MAX_FILES { Ok(()) } else { Err(MemoryError::Full) }
}

fn walk(dir: &Dir, folder: &Path, depth: usize, max: usize, found: &mut Vec<Listed>) -> io::Result<bool> {
    for item in dir.items(folder)? {
        if item.name.to_string_lossy().starts_with('.') {
            continue;
        }
        if found.len() == max {
            return Ok(false);
        }
        let below = folder.join(&item.name);
        let bytes = dir.facts(&below).map_or(0, |facts| facts.bytes);
        let is_folder = item.kind == Kind::Folder;
        found.push(Listed { below: below.clone(), bytes: if is_folder { 0 } else { bytes }, is_folder });
        if is_folder && depth > 1 && !walk(dir, &below, depth - 1, max, found)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a file, or a folder with its content. Links are removed and not followed.
pub(super) fn remove(dir: &Dir, below: &Path, kind: Kind, depth: usize) -> io::Result<()> {
    if kind != Kind::Folder {
        return dir.remove_file(below);
    }
    if depth == 0 {
        return Err(io::Error::other("the folder is nested too deeply"));
    }
    for item in dir.items(below)? {
        remove(dir, &below.join(&item.name), item.kind, depth - 1)?;
    }
    dir.remove_dir(below)
}
