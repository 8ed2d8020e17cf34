//! Copies a folder.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::Folder;
use super::error::BranchWorkspaceError;
use super::manifest::{Entry, Fingerprints, Manifest};
use super::scan::{Counter, Limits, Rules, walk, walked};
use crate::Workspace;
use crate::dir::{Kind, NewFile};
use crate::workspace::{is_repository, is_settings};

/// Copies the files that the rules include to an empty folder. Returns the copied entries and the paths that cannot be
/// copied.
pub(super) fn copy(
    origin: &Folder,
    to: &Folder,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
) -> Result<(Manifest, Vec<PathBuf>), BranchWorkspaceError> {
    let mut counter = Counter::new(&origin.real, limits);
    let mut copied = Manifest::default();
    let mut left_out = Vec::new();
    for entry in walk(origin, rules, matches!(rules, Rules::All)) {
        let entry = walked(&origin.real, entry)?;
        let path = entry.below;
        let failed = |action, e| BranchWorkspaceError::io(action, &to.real.join(&path), e);
        if entry.kind == Kind::Folder {
            to.dir.create_dirs(&path).map_err(|e| failed("made", e))?;
            continue;
        }
        counter.file()?;
        match entry.kind {
            Kind::Link => match origin.dir.read_link(&path) {
                Ok(leads_to) if leads_inside(&origin.workspace, &path, &leads_to) => {
                    to.dir.create_link(&leads_to, &path).map_err(|e| failed("linked", e))?;
                    note(&mut copied, path, Entry::Link(leads_to));
                }
                Ok(_) | Err(_) => left_out.push(path),
            },
            Kind::File => {
                let entry = copy_file(origin, to, &path, &mut counter, prints)?;
                note(&mut copied, path, entry);
            }
            Kind::Folder | Kind::Other => left_out.push(path),
        }
    }
    Ok((copied, left_out))
}

/// Records an entry. The files of the repository itself and of the project's settings are never part of the changes.
fn note(copied: &mut Manifest, path: PathBuf, entry: Entry) {
    if !path.iter().any(|part| is_repository(part) || is_settings(part)) {
        copied.0.insert(path, entry);
    }
}

/// Returns whether a link at `path` to `leads_to` is relative and stays inside of the folder, including links on its way.
pub(super) fn leads_inside(workspace: &Workspace, path: &Path, leads_to: &Path) -> bool {
    let target = path.parent().unwrap_or(Path::new("")).join(leads_to);
    leads_to.is_relative() && target.to_str().is_some_and(|target| workspace.resolve(target).is_ok())
}

/// Copies a file and hashes the bytes that are written, so that a concurrent change of the original does no harm.
fn copy_file(
    origin: &Folder,
    to: &Folder,
    path: &Path,
    counter: &mut Counter<'_>,
    prints: &Fingerprints,
) -> Result<Entry, BranchWorkspaceError> {
    let (from, target) = (origin.real.join(path), to.real.join(path));
    let unread = |e| BranchWorkspaceError::io("read", &from, e);
    let (source, facts) = origin.dir.open_file(path).map_err(unread)?;
    let permissions = source.metadata().map_err(unread)?.permissions();
    let unmade = |e| BranchWorkspaceError::io("made", &target, e);
    let mut file = to.dir.create_file(path, NewFile::Usual).map_err(unmade)?;
    let mut print = prints.begin();
    // Reading one byte above the limit detects a file that is too large.
    let room = counter.room().saturating_add(1);
    let mut bytes = 0u64;
    let write = |chunk: &[u8]| {
        bytes = bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        file.write_all(chunk)
    };
    print.all_of(&mut source.take(room), write).map_err(|e| BranchWorkspaceError::io("copied", &from, e))?;
    counter.bytes(bytes)?;
    file.set_permissions(permissions).map_err(unmade)?;
    Ok(print.end(facts.executable))
}
