//! Truncating and formatting text.

use std::fmt::Write as _;
use std::path::Path;

/// Returns the longest prefix of `text` with at most `max` bytes that ends at a character boundary.
pub(crate) fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// Formats a number of lines, such as `1 line` or `2 lines`.
pub(crate) fn lines(n: usize) -> String {
    format!("{n} line{}", if n == 1 { "" } else { "s" })
}

/// Formats a path with `/` as the separator and escaped control characters, so that it fits on one line. An empty path
/// becomes `.`.
pub(crate) fn path_text(path: &Path) -> String {
    let mut out = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == std::path::MAIN_SEPARATOR {
                out.push('/');
            } else if c.is_control() {
                // Writing to a string cannot fail.
                let _ = write!(out, "{}", c.escape_default());
            } else {
                out.push(c);
            }
        }
        // Two names that are not UTF-8 must not look alike.
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    if out.is_empty() {
        out.push('.');
    }
    out
}

/// Returns the ASCII character for a typographic variant of it.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{02BC}' | '\u{00B4}' | '\u{FF07}' => '\'',
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{00AB}' | '\u{00BB}' | '\u{FF02}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => '-',
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
        // The full-width forms are in the order of ASCII.
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(c as u32 - 0xFEE0).unwrap_or(c),
        c => c,
    }
}
