//! The data of a repository that is not in a folder named `.git`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::rules::is_repository;
use crate::dir::Dir;

/// The longest file that names a folder, in bytes.
const MAX_NAME_BYTES: u64 = 8 << 10;

/// What git reads from its folder to decide which programs it runs, and what it records.
const PARTS: [&str; 6] = ["HEAD", "config", "config.worktree", "hooks", "objects", "refs"];

/// Returns the files and folders inside of `root` that git uses as the data of the repository around `root`, but for those below a
/// name `.git`: where `.git` leads as a file or a link, its common folder, and the parts of a repository without a working tree.
pub(super) fn beside(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in root.ancestors() {
        let git = folder.join(".git");
        let data = match std::fs::symlink_metadata(&git) {
            Ok(facts) if facts.is_file() => named_in(folder, ".git", "gitdir:").map(|name| folder.join(name)),
            Ok(_) => Some(git),
            // Git checks the folder itself before the one above.
            Err(_) if folder.join("HEAD").exists() && folder.join("objects").exists() => {
                Some(folder.to_path_buf())
            }
            Err(_) => continue,
        };
        let data = data.and_then(|data| data.canonicalize().ok());
        let common =
            data.as_ref().and_then(|data| data.join(named_in(data, "commondir", "")?).canonicalize().ok());
        for folder in data.into_iter().chain(common) {
            match root.starts_with(&folder) {
                true => found.extend(PARTS.map(|part| folder.join(part))),
                false => found.push(folder),
            }
        }
        break;
    }
    let below_git = |path: &Path| path.strip_prefix(root).is_ok_and(|below| below.iter().any(is_repository));
    found.retain(|path| path.starts_with(root) && !below_git(path));
    found
}

/// Returns the path in a regular file of one line, behind this beginning.
fn named_in(folder: &Path, file: &str, beginning: &str) -> Option<PathBuf> {
    let (file, _) = Dir::open(folder).ok()?.open_file(file.as_ref()).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_NAME_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let name = text.strip_prefix(beginning)?.trim();
    (!name.is_empty()).then(|| PathBuf::from(name))
}
