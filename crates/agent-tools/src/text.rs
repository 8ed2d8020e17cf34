//! Cutting and showing text.

use std::fmt::Write as _;
use std::path::Path;

/// The longest beginning of `text` that has at most `max` bytes and ends between two characters.
pub(crate) fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// `1 line`, `2 lines`.
pub(crate) fn lines(n: usize) -> String {
    format!("{n} line{}", if n == 1 { "" } else { "s" })
}

/// A path with `/` between its parts and control characters escaped, so that it stays on one line. `.` for nothing.
pub(crate) fn path_text(path: &Path) -> String {
    let mut out = String::new();
    let raw = path.to_string_lossy();
    for c in raw.chars() {
        if c == std::path::MAIN_SEPARATOR {
            out.push('/');
        } else if c.is_control() {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    if out.is_empty() {
        out.push('.');
    }
    out
}
