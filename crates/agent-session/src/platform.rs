//! The folder in which programs store the sessions of a working directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use sha2::{Digest as _, Sha256};

use crate::error::SessionError;

/// The maximum length of the readable part of a folder's name, in characters.
const MAX_NAME: usize = 40;

/// Returns the folder for the sessions of the directory `workspace`: `looptree/sessions/NAME-HASH` in the platform's data
/// directory of the user, where `NAME` is the last component of the path and `HASH` identifies the whole real path.
///
/// | platform | data directory |
/// |---|---|
/// | Linux and other Unix systems | `$XDG_DATA_HOME`, or `~/.local/share` |
/// | macOS | `~/Library/Application Support` |
/// | Windows | `%APPDATA%` |
///
/// The folder is outside of `workspace`, so that the tools of an agent do not find the agent's own sessions there. Does not
/// create it; the stores do, with access for the owner only.
///
/// # Errors
/// Returns [`SessionError::NoDataFolder`] if the user has no home directory, or if the data directory is inside of
/// `workspace`, and [`SessionError::Io`] if `workspace` does not exist.
pub fn sessions_folder(workspace: impl AsRef<Path>) -> Result<PathBuf, SessionError> {
    let workspace = workspace.as_ref();
    let real = std::fs::canonicalize(workspace).map_err(SessionError::io(workspace, "resolved"))?;
    let no_folder = |reason: String| SessionError::NoDataFolder { reason };
    let platform = etcetera::base_strategy::choose_native_strategy()
        .map_err(|_| no_folder("the user has no home directory".to_owned()))?;
    let data = platform.data_dir();
    // The part that exists is resolved, so that a link into the directory is found.
    let existing = data.ancestors().find_map(|above| std::fs::canonicalize(above).ok());
    if existing.is_some_and(|existing| existing.starts_with(&real)) {
        let reason = format!("the data directory {} is inside of {}", data.display(), real.display());
        return Err(no_folder(reason));
    }
    let name: String = real
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(MAX_NAME)
        .collect();
    let hash = Sha256::digest(real.as_os_str().as_encoded_bytes());
    let hash = hash.iter().take(8).fold(String::new(), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Ok(data.join("looptree").join("sessions").join(format!("{name}-{hash}")))
}
