//! Applies a branch's changes to the origin.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::Seen;
use super::copy::leads_inside;
use super::error::BranchWorkspaceError;
use super::manifest::{Change, ChangeKind, Entry, Manifest};
use super::scan::is_missing;
use crate::dir::{Dir, Kind, NewFile, is_link_error};
use crate::walk::{IgnoreFiles, Walk};

/// Checks all changes, then deletes, then writes.
pub(super) fn apply(
    seen: &Seen,
    changes: &[Change],
    now: &Manifest,
) -> Result<Vec<Change>, BranchWorkspaceError> {
    let gone: BTreeSet<&Path> =
        changes.iter().filter(|c| c.kind == ChangeKind::Deleted).map(|c| c.path.as_path()).collect();
    let mut conflicts = Vec::new();
    let mut due = Vec::new();
    for change in changes {
        if let Some(Entry::Link(leads_to)) = now.0.get(&change.path)
            && !leads_inside(&seen.branch.workspace, &change.path, leads_to)
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
    let (origin, path) = (&seen.origin.dir, change.path.as_path());
    let failed = |e| BranchWorkspaceError::io("read", &seen.origin.real.join(path), e);
    if !way_is_free(origin, path, gone) {
        return Ok(State::Conflict);
    }
    let there = seen.prints.entry(origin, path).map_err(failed)?;
    let (was, is) = (seen.base.0.get(path), now.0.get(path));
    if there.as_ref() == is {
        return Ok(State::Done);
    }
    if there.as_ref() == was {
        return Ok(State::Due);
    }
    // A file may replace a folder if all files in the folder are deleted.
    let is_folder = origin.facts(path).is_ok_and(|facts| facts.kind == Kind::Folder);
    if is_folder && was.is_none() && holds_only(origin, path, gone).map_err(failed)? {
        return Ok(State::Due);
    }
    Ok(State::Conflict)
}

/// Returns whether every component of the path is a folder, does not exist or is deleted. A link could lead out.
fn way_is_free(origin: &Dir, relative: &Path, gone: &BTreeSet<&Path>) -> bool {
    let mut folders = relative.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty());
    folders.all(|folder| match origin.facts(folder) {
        Ok(facts) => facts.kind == Kind::Folder || gone.contains(folder),
        Err(e) => is_missing(&e),
    })
}

fn holds_only(origin: &Dir, folder: &Path, gone: &BTreeSet<&Path>) -> io::Result<bool> {
    for entry in Walk::new(origin, folder, IgnoreFiles::Disregarded) {
        let entry = entry?;
        if entry.kind != Kind::Folder && !gone.contains(entry.below.as_path()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn perform(seen: &Seen, change: &Change, now: &Manifest) -> Result<(), BranchWorkspaceError> {
    let (origin, path) = (&seen.origin.dir, change.path.as_path());
    let failed = |action, e| BranchWorkspaceError::io(action, &seen.origin.real.join(path), e);
    match now.0.get(path) {
        None => {
            origin.remove_file(path).map_err(|e| failed("removed", e))?;
            remove_empty_folders(seen, path);
            Ok(())
        }
        Some(Entry::Link(leads_to)) => place(origin, path, |folder, new| folder.create_link(leads_to, new))
            .map_err(|e| failed("linked", e)),
        Some(Entry::File { .. } | Entry::Other) => place_file(seen, path),
    }
}

/// Removes empty folders that the branch no longer has.
fn remove_empty_folders(seen: &Seen, relative: &Path) {
    for folder in relative.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()) {
        // A folder that is not empty is not removed.
        let remains = seen.branch.dir.facts(folder).is_ok_and(|facts| facts.kind == Kind::Folder);
        if remains || seen.origin.dir.remove_dir(folder).is_err() {
            return;
        }
    }
}

/// Replaces a file by the one of the branch in one step.
fn place_file(seen: &Seen, path: &Path) -> Result<(), BranchWorkspaceError> {
    let unread = |e| BranchWorkspaceError::io("read", &seen.branch.real.join(path), e);
    // The branch's tools may still be running, so a link is not followed.
    let (mut from, _) = seen.branch.dir.open_file(path).map_err(|e| {
        if is_link_error(&e) {
            BranchWorkspaceError::LeadsOut { path: path.to_path_buf() }
        } else {
            unread(e)
        }
    })?;
    let permissions = from.metadata().map_err(unread)?.permissions();
    place(&seen.origin.dir, path, |folder, new| {
        let mut to = folder.create_file(new, NewFile::Usual)?;
        let done = io::copy(&mut from, &mut to)
            .and_then(|_| to.set_permissions(permissions.clone()))
            .and_then(|()| to.sync_all());
        if done.is_err() {
            drop(folder.remove_file(new));
        }
        done
    })
    .map_err(|e| BranchWorkspaceError::io("written", &seen.origin.real.join(path), e))
}

/// Creates a file or link beside its target and renames it. An empty folder at the target is removed.
fn place(origin: &Dir, target: &Path, make: impl FnMut(&Dir, &Path) -> io::Result<()>) -> io::Result<()> {
    let name =
        target.file_name().map(Path::new).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let folder = origin.create_dirs(target.parent().unwrap_or(Path::new("")))?;
    let ((), new) = folder.with_new_name(Path::new(""), ".looptree-", make)?;
    let clear = || match folder.facts(name) {
        Ok(facts) if facts.kind == Kind::Folder => remove_empty_tree(&folder, name),
        Ok(_) | Err(_) => Ok(()),
    };
    let done = clear().and_then(|()| folder.rename(&new, name));
    if done.is_err() {
        drop(folder.remove_file(&new));
    }
    done
}

/// Removes a folder that contains nothing but folders.
fn remove_empty_tree(dir: &Dir, folder: &Path) -> io::Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    for entry in Walk::new(dir, folder, IgnoreFiles::Disregarded) {
        let entry = entry?;
        if entry.kind != Kind::Folder {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        folders.push(entry.below);
    }
    folders.iter().rev().try_for_each(|folder| dir.remove_dir(folder))
}
