//! Which ids may be the name of a file.

use crate::error::SessionError;

/// The longest id that may be the name of a file, in bytes. File systems take 255 for name and ending.
pub const MAX_ID_BYTES: usize = 200;

/// Names that Windows gives to devices, whatever their ending.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Letters, digits, `-`, `_`, `.` and a few more that no file system reads as something else.
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
