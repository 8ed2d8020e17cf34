//! The copy of the workspace in which mutants are compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::workspace::Workspace;

/// Makes `tree` a copy of the project's files, some of which have another text. A file that is as it should be is not
/// written, so that cargo does not compile it again.
pub(super) fn copy(
    workspace: &Workspace,
    tree: &Path,
    changed: &BTreeMap<String, String>,
) -> anyhow::Result<()> {
    let paths: BTreeSet<String> = workspace.paths()?.into_iter().collect();
    remove_others(tree, tree, &paths)?;
    for path in &paths {
        let from = workspace.root.join(path);
        let bytes = match changed.get(path) {
            Some(text) => text.clone().into_bytes(),
            None => std::fs::read(&from).with_context(|| format!("cannot read {path}"))?,
        };
        let to = tree.join(path);
        if std::fs::read(&to).is_ok_and(|old| old == bytes) {
            continue;
        }
        let folder = to.parent().context("a file has a folder")?;
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        let permissions =
            std::fs::metadata(&from).with_context(|| format!("cannot read {path}"))?.permissions();
        std::fs::set_permissions(&to, permissions)
            .with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// Removes files that an earlier copy or a test has left in this folder.
fn remove_others(tree: &Path, folder: &Path, paths: &BTreeSet<String>) -> anyhow::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    for entry in entries {
        if entry.is_dir() && !entry.is_symlink() {
            remove_others(tree, &entry, paths)?;
            continue;
        }
        let path = entry.strip_prefix(tree).unwrap_or(&entry).to_string_lossy().replace('\\', "/");
        if !paths.contains(&path) {
            std::fs::remove_file(&entry).with_context(|| format!("cannot remove {}", entry.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
