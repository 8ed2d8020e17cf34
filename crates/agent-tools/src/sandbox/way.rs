//! The links on the way to a path, which a command could exchange.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// The maximum number of links on a way, as in Linux.
const MAX_LINKS: usize = 40;

/// Returns the first link on the way to `path` that is in one of these folders. The folders are real paths.
pub(super) fn exchangeable_link(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let mut rest: VecDeque<OsString> = parts(&path).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop_front() {
        match part.as_encoded_bytes() {
            b"/" => at = PathBuf::from("/"),
            b".." => drop(at.pop()),
            _ => {
                let next = at.join(&part);
                let Ok(target) = std::fs::read_link(&next) else {
                    at = next;
                    continue;
                };
                links += 1;
                if links > MAX_LINKS || writable.iter().any(|folder| at.starts_with(folder)) {
                    return Some(next);
                }
                for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                    rest.push_front(part);
                }
            }
        }
    }
    None
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_owned())
}
