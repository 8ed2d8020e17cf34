//! Lines of JSON with a checksum.
//!
//! Each line of a journal and of a session's file is a JSON object whose first member is the CRC-32 of the rest of the
//! line, as eight hexadecimal digits: `{"crc":"9ae0daaf","n":1}`. A line that was changed, cut or joined with another one
//! is detected before it is parsed.

use std::io::Write as _;

/// The bytes before and after the checksum.
const BEFORE: &[u8] = b"{\"crc\":\"";
const AFTER: &[u8] = b"\",";

/// The number of digits of a checksum.
const DIGITS: usize = 8;

/// The length of the part of a line that its checksum does not include.
const PREFIX: usize = BEFORE.len() + DIGITS + AFTER.len();

/// Appends a JSON object as a line with its checksum, without a line feed. `object` writes the object, which must have a
/// member.
///
/// # Errors
/// The error of `object`; nothing is appended then.
pub(crate) fn seal<E>(
    out: &mut Vec<u8>,
    object: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let from = out.len();
    out.resize(from + PREFIX - 1, b' ');
    if let Err(error) = object(out) {
        out.truncate(from);
        return Err(error);
    }
    // The brace of the object is the last byte of the prefix, and becomes the comma.
    let (sealed, rest) = out.split_at_mut(from + PREFIX);
    if let Some(mut prefix) = sealed.get_mut(from..) {
        // The prefix has exactly this length.
        let _ = write!(prefix, "{{\"crc\":\"{:08x}\",", crc32fast::hash(rest));
    }
    Ok(())
}

/// Returns whether a line has the form of a sealed line; its checksum can be wrong.
pub(crate) fn is_sealed(line: &[u8]) -> bool {
    line.starts_with(BEFORE)
}

/// Checks a line and returns its members: the object without its opening brace and the checksum.
///
/// # Errors
/// The reason why the line is damaged.
pub(crate) fn open(line: &[u8]) -> Result<&[u8], String> {
    let damaged = || "its checksum is damaged".to_owned();
    let (prefix, rest) = line.split_at_checked(PREFIX).ok_or_else(damaged)?;
    let digits = prefix.strip_prefix(BEFORE).and_then(|p| p.strip_suffix(AFTER)).ok_or_else(damaged)?;
    let expected = format!("{:08x}", crc32fast::hash(rest));
    if digits == expected.as_bytes() {
        return Ok(rest);
    }
    let found = String::from_utf8_lossy(digits);
    Err(format!("its checksum is {found}, and that of its content is {expected}"))
}

/// Parses a line that was checked with [`open`].
///
/// # Errors
/// When the members are not those of a `T`.
pub(crate) fn parse<'l, T: serde::Deserialize<'l>>(line: &'l [u8]) -> Result<T, String> {
    open(line)?;
    // The checksum is an unknown member of `T`, which is skipped.
    serde_json::from_slice(line).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
