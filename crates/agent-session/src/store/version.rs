//! Checks the version of stored sessions.

use std::path::Path;

use serde_json::Value;

use crate::error::SessionError;
use crate::model::SESSION_VERSION;

/// Rejects a missing and a later version; `place` is the place of the version in the file, for the error.
pub(super) fn check_version(path: &Path, place: &str, version: Option<&Value>) -> Result<(), SessionError> {
    let Some(found) = version.and_then(Value::as_u64) else {
        return Err(SessionError::corrupt(path, place, "there is no version; this is no session"));
    };
    check_version_number(path, found)
}

/// Rejects a later version and zero.
pub(super) fn check_version_number(path: &Path, found: u64) -> Result<(), SessionError> {
    if found > u64::from(SESSION_VERSION) || found == 0 {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        return Err(SessionError::UnsupportedVersion {
            path: path.to_owned(),
            found,
            known: SESSION_VERSION,
        });
    }
    Ok(())
}
