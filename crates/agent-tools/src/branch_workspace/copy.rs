//! Copies a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

use super::error::BranchWorkspaceError;
use super::manifest::{Entry, Fingerprints, Manifest, is_executable};
use super::scan::{Counter, Limits, Rules, relative, walk, walked};
use crate::Workspace;
use crate::workspace::open_regular;

/// Copies the files that the rules include to an empty folder. Returns the copied entries and the paths that cannot be
/// copied.
pub(super) fn copy(
    origin: &Workspace,
    to: &Path,
    rules: &Rules,
    limits: Limits,
    prints: &Fingerprints,
) -> Result<(Manifest, Vec<PathBuf>), BranchWorkspaceError> {
    let from = origin.root().unwrap_or_else(|| Path::new("."));
    let mut counter = Counter::new(from, limits);
    let mut copied = Manifest::default();
    let mut left_out = Vec::new();
    for entry in walk(from, rules, matches!(rules, Rules::All)) {
        let entry = walked(from, entry)?;
        let path = relative(from, &entry);
        let target = to.join(&path);
        let Some(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            fs::create_dir_all(&target).map_err(|e| BranchWorkspaceError::io("made", &target, e))?;
            continue;
        }
        counter.file()?;
        if kind.is_symlink() {
            match inner_link(origin, &path) {
                Some(leads_to) => {
                    link(&leads_to, &target).map_err(|e| BranchWorkspaceError::io("linked", &target, e))?;
                    note(&mut copied, path, Entry::Link(leads_to));
                }
                None => left_out.push(path),
            }
        } else if kind.is_file() {
            let entry = copy_file(entry.path(), &target, &mut counter, prints)?;
            note(&mut copied, path, entry);
        } else {
            left_out.push(path);
        }
    }
    Ok((copied, left_out))
}

/// Records an entry. The files of the repository itself are never part of the changes.
fn note(copied: &mut Manifest, path: PathBuf, entry: Entry) {
    if !path.iter().any(|part| part == ".git") {
        copied.0.insert(path, entry);
    }
}

/// Resolves a relative link that stays inside of the folder, including links on its way.
pub(super) fn inner_link(workspace: &Workspace, path: &Path) -> Option<PathBuf> {
    let leads_to = fs::read_link(workspace.root()?.join(path)).ok()?;
    let inside = leads_to.is_relative() && workspace.resolve(path.to_str()?).is_ok();
    inside.then_some(leads_to)
}

#[cfg(unix)]
pub(super) fn link(leads_to: &Path, at: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(leads_to, at)
}

#[cfg(not(unix))]
pub(super) fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}

/// Copies a file and hashes the bytes that are written, so that a concurrent change of the original does no harm.
fn copy_file(
    from: &Path,
    to: &Path,
    counter: &mut Counter<'_>,
    prints: &Fingerprints,
) -> Result<Entry, BranchWorkspaceError> {
    let (source, _) = open_regular(from, &from.display().to_string())?;
    let meta = source.metadata().map_err(|e| BranchWorkspaceError::io("read", from, e))?;
    let failed = |e| BranchWorkspaceError::io("copied", from, e);
    let mut target = create_new(to).map_err(|e| BranchWorkspaceError::io("made", to, e))?;
    let mut print = prints.begin();
    // Reading one byte above the limit detects a file that is too large.
    let room = counter.room().saturating_add(1);
    let mut bytes = 0u64;
    let write = |chunk: &[u8]| {
        bytes = bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
        target.write_all(chunk)
    };
    print.all_of(&mut source.take(room), write).map_err(failed)?;
    counter.bytes(bytes)?;
    target.set_permissions(meta.permissions()).map_err(|e| BranchWorkspaceError::io("made", to, e))?;
    Ok(print.end(is_executable(&meta)))
}

fn create_new(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}
