//! Checks the version of stored sessions.

use std::path::Path;

use serde_json::Value;

use crate::error::SessionError;

/// Returns the version, unless it is missing, zero, or later than `known`; `place` is the place of the version in the file,
/// for the error.
pub(super) fn check_version(
    path: &Path,
    place: &str,
    version: Option<&Value>,
    known: u32,
) -> Result<u32, SessionError> {
    let Some(found) = version.and_then(Value::as_u64) else {
        return Err(SessionError::corrupt(path, place, "there is no version; this is no session"));
    };
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > known || found == 0 {
        return Err(SessionError::UnsupportedVersion { path: path.to_owned(), found, known });
    }
    Ok(found)
}
