//! The rule for ids that become names of files.

use crate::error::SessionError;

/// The maximum length of a session id in bytes: 200. File systems allow 255 for the name and its ending.
pub const MAX_ID_BYTES: usize = 200;

/// Names that Windows reserves for devices, with any ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Checks that an id has only letters, digits and a few signs that have no meaning in paths.
pub(super) fn check(id: &str) -> Result<(), SessionError> {
    let reason = if id.is_empty() {
        "it is empty"
    } else if id.len() > MAX_ID_BYTES {
        "it is longer than 200 bytes"
    } else if id.starts_with('.') || id.ends_with('.') {
        "it begins or ends with a dot"
    } else if !id.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+' | '=')) {
        "it holds a character that is neither a letter nor a digit nor one of - _ . @ + ="
    } else if is_device(id) {
        "it is the name of a device on Windows"
    } else if id.ends_with(".journal") {
        "it ends like the name of a journal"
    } else {
        return Ok(());
    };
    Err(SessionError::InvalidId { id: id.chars().take(80).collect(), reason })
}

fn is_device(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    DEVICES.contains(&stem.as_str())
        || port.is_some_and(|n| n.len() == 1 && n != "0" && n.parse::<u8>().is_ok())
}
