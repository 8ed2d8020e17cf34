//! Applies a branch's changes to the origin.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::copy::{inner_link, link};
use super::error::BranchWorkspaceError;
use super::manifest::{Change, ChangeKind, Entry, Manifest};
use super::{Seen, scan};
use crate::Workspace;

/// Checks all changes, then deletes, then writes.
pub(super) fn apply(
    seen: &Seen,
    changes: &[Change],
    now: &Manifest,
) -> Result<Vec<Change>, BranchWorkspaceError> {
    let workspace = Workspace::open(&seen.root)?;
    let gone: BTreeSet<&Path> =
        changes.iter().filter(|c| c.kind == ChangeKind::Deleted).map(|c| c.path.as_path()).collect();
    let mut conflicts = Vec::new();
    let mut due = Vec::new();
    for change in changes {
        if matches!(now.0.get(&change.path), Some(Entry::Link(_)))
            && inner_link(&workspace, &change.path).is_none()
        {
            return Err(BranchWorkspaceError::LeadsOut { path: change.path.clone() });
        }
        match state(seen, change, now, &gone)? {
            State::Due => due.push(change),
            State::Done => {}
            State::Conflict => conflicts.push(change.path.clone()),
        }
    }
    if !conflicts.is_empty() {
        return Err(BranchWorkspaceError::Conflict { paths: conflicts });
    }
    let mut applied: Vec<PathBuf> = Vec::new();
    let (first, then): (Vec<&Change>, Vec<&Change>) =
        due.iter().copied().partition(|c| c.kind == ChangeKind::Deleted);
    for change in first.into_iter().chain(then) {
        match perform(seen, change, now) {
            Ok(()) => applied.push(change.path.clone()),
            Err(source) if applied.is_empty() => return Err(source),
            Err(source) => return Err(BranchWorkspaceError::Partly { applied, source: Box::new(source) }),
        }
    }
    Ok(due.into_iter().cloned().collect())
}

enum State {
    /// The change must be written.
    Due,
    /// The origin already has this content.
    Done,
    /// The origin has other content.
    Conflict,
}

fn state(
    seen: &Seen,
    change: &Change,
    now: &Manifest,
    gone: &BTreeSet<&Path>,
) -> Result<State, BranchWorkspaceError> {
    let path = seen.origin.join(&change.path);
    let failed = |e| BranchWorkspaceError::io("read", &path, e);
    if !way_is_free(&seen.origin, &change.path, gone) {
        return Ok(State::Conflict);
    }
    let there = seen.prints.entry(&path).map_err(failed)?;
    let (was, is) = (seen.base.0.get(&change.path), now.0.get(&change.path));
    if there.as_ref() == is {
        return Ok(State::Done);
    }
    if there.as_ref() == was {
        return Ok(State::Due);
    }
    // A file may replace a folder if all files in the folder are deleted.
    let is_folder = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
    if is_folder && was.is_none() && holds_only(&seen.origin, &path, gone).map_err(failed)? {
        return Ok(State::Due);
    }
    Ok(State::Conflict)
}

/// Returns whether every component of the path is a folder, does not exist or is deleted. A link could lead out.
fn way_is_free(origin: &Path, relative: &Path, gone: &BTreeSet<&Path>) -> bool {
    let folders = relative.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty());
    folders.into_iter().all(|folder| match fs::symlink_metadata(origin.join(folder)) {
        Ok(meta) => meta.is_dir() || gone.contains(folder),
        Err(e) => matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    })
}

fn holds_only(origin: &Path, folder: &Path, gone: &BTreeSet<&Path>) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let fine = if entry.file_type()?.is_dir() {
            holds_only(origin, &path, gone)?
        } else {
            path.strip_prefix(origin).is_ok_and(|p| gone.contains(p))
        };
        if !fine {
            return Ok(false);
        }
    }
    Ok(true)
}

fn perform(seen: &Seen, change: &Change, now: &Manifest) -> Result<(), BranchWorkspaceError> {
    let target = seen.origin.join(&change.path);
    match now.0.get(&change.path) {
        None => {
            fs::remove_file(&target).map_err(|e| BranchWorkspaceError::io("removed", &target, e))?;
            remove_empty_folders(seen, &change.path);
            Ok(())
        }
        Some(Entry::Link(leads_to)) => place(&target, |new| link(leads_to, new))
            .map_err(|e| BranchWorkspaceError::io("linked", &target, e)),
        Some(Entry::File { .. } | Entry::Other) => {
            let source = seen.root.join(&change.path);
            place_file(seen, &change.path, &source, &target)
        }
    }
}

/// Removes empty folders that the branch no longer has.
fn remove_empty_folders(seen: &Seen, relative: &Path) {
    for folder in relative.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
        // A folder that is not empty is not removed.
        if seen.root.join(folder).is_dir() || fs::remove_dir(seen.origin.join(folder)).is_err() {
            return;
        }
    }
}

/// Replaces a file by the one of the branch in one step.
fn place_file(
    seen: &Seen,
    relative: &Path,
    source: &Path,
    target: &Path,
) -> Result<(), BranchWorkspaceError> {
    let unread = |e| BranchWorkspaceError::io("read", source, e);
    // The branch's tools may still be running, so a link must not be followed.
    if scan::is_behind_link(&seen.root, relative)
        || fs::symlink_metadata(source).map_err(unread)?.file_type().is_symlink()
    {
        return Err(BranchWorkspaceError::LeadsOut { path: relative.to_path_buf() });
    }
    let mut from = File::open(source).map_err(unread)?;
    let permissions = from.metadata().map_err(unread)?.permissions();
    place(target, |new| {
        let mut to = File::options().write(true).create_new(true).open(new)?;
        io::copy(&mut from, &mut to)?;
        to.set_permissions(permissions)?;
        to.sync_all()
    })
    .map_err(|e| BranchWorkspaceError::io("written", target, e))
}

/// Creates a file or link beside its target and renames it. An empty folder at the target is removed.
fn place(target: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let folder = target.parent().ok_or_else(|| io::Error::other("the path has no folder"))?;
    fs::create_dir_all(folder)?;
    let beside = tempfile::Builder::new().prefix(".looptree-").tempdir_in(folder)?;
    let new = beside.path().join("new");
    make(&new)?;
    if fs::symlink_metadata(target).is_ok_and(|m| m.is_dir()) {
        remove_empty_tree(target)?;
    }
    fs::rename(&new, target)
}

fn remove_empty_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        remove_empty_tree(&entry?.path())?;
    }
    fs::remove_dir(folder)
}
