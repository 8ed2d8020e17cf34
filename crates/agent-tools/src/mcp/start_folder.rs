//! The empty folder in which a server starts.
//!
//! Runners such as `npx` and `uvx` read settings and code of the folder in which they start and of the folders above it. So
//! the folder is created where other users and commands cannot write, if this machine has such a place.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::environment;
use crate::program::SearchPath;

/// Creates an empty folder that only this user can access, outside of the folders that commands can write to. Dropping it removes it.
pub(super) fn create(search: &SearchPath) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("looptree-mcp-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let places: Vec<PathBuf> = places().filter_map(|place| place.canonicalize().ok()).collect();
    let is_own =
        |place: &&PathBuf| place.ancestors().all(is_closed) && search.writable_around(place).is_none();
    let own = places.iter().filter(is_own);
    let folder = own.map(|place| builder.tempdir_in(place)).find_map(Result::ok);
    folder.map_or_else(|| builder.tempdir_in(std::env::temp_dir().canonicalize()?), Ok)
}

/// Returns the folders for short-lived files of this user.
fn places() -> impl Iterator<Item = PathBuf> {
    let named = |name: &str| environment::variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let usual = named("HOME").map(|home| home.join(".cache"));
    [named("XDG_RUNTIME_DIR"), named("XDG_CACHE_HOME"), usual].into_iter().flatten()
}

/// Returns whether only this user and root can create files in a folder.
#[cfg(unix)]
fn is_closed(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    const OTHERS_WRITE: u32 = 0o022;
    let user = rustix::process::geteuid().as_raw();
    std::fs::metadata(folder)
        .is_ok_and(|found| (found.uid() == 0 || found.uid() == user) && found.mode() & OTHERS_WRITE == 0)
}

/// The folders of the user are closed on other systems.
#[cfg(not(unix))]
fn is_closed(_: &Path) -> bool {
    true
}
