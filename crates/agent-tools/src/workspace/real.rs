//! Resolves a path, even if its last components do not exist yet.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::PathError;

/// The maximum number of successive dangling symlinks. The limit of the kernel is 40.
const MAX_LINKS: usize = 40;

/// Resolves `from` to a real path. `named` is only used in errors.
///
/// `fs::canonicalize` resolves only paths that exist. A symlink to a file that does not exist yet must be resolved as
/// well, because it decides where a write goes.
pub(super) fn real_path(from: &Path, named: &str) -> Result<PathBuf, PathError> {
    let mut path = from.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::canonicalize(&path) {
            Ok(real) => return Ok(real),
            Err(error) if error.kind() == io::ErrorKind::NotFound => match behind_missing(&path, named)? {
                Missing::Real(real) => return Ok(real),
                Missing::Link(target) => path = target,
            },
            Err(source) => return Err(PathError::access(named, source)),
        }
    }
    Err(PathError::LinkLoop { path: named.to_owned() })
}

enum Missing {
    /// The existing folder, and the names below it that do not exist.
    Real(PathBuf),
    /// The path contained a dangling symlink, which is replaced in this path.
    Link(PathBuf),
}

fn behind_missing(path: &Path, named: &str) -> Result<Missing, PathError> {
    let mut names: Vec<OsString> = Vec::new();
    let mut cursor = path.to_path_buf();
    loop {
        match fs::symlink_metadata(&cursor) {
            Ok(meta) if meta.file_type().is_symlink() => {
                let target = fs::read_link(&cursor).map_err(|source| PathError::access(named, source))?;
                let folder = cursor.parent().unwrap_or_else(|| Path::new("/"));
                let mut next = folder.join(target);
                next.extend(names.iter().rev());
                return Ok(Missing::Link(next));
            }
            Ok(_) => {
                let mut real =
                    fs::canonicalize(&cursor).map_err(|source| PathError::access(named, source))?;
                real.extend(names.iter().rev());
                return Ok(Missing::Real(real));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(name) = cursor.file_name() else {
                    return Err(PathError::ParentOfMissing { path: named.to_owned() });
                };
                names.push(name.to_owned());
                cursor.pop();
            }
            Err(source) => return Err(PathError::access(named, source)),
        }
    }
}
