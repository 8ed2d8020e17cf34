//! Lines of JSON with a checksum.
//!
//! Each line of a journal and of a session's file is a JSON object whose first member is the CRC-32 of the rest of the
//! line, as eight hexadecimal digits: `{"crc":"9ae0daaf","n":1}`. A line that was changed, cut or joined with another one
//! is detected before it is parsed.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    let digits = digits(crc32fast::hash(rest));
    let prefix = BEFORE.iter().chain(&digits).chain(AFTER);
    sealed.iter_mut().skip(from).zip(prefix).for_each(|(byte, of_prefix)| *byte = *of_prefix);
    Ok(())
}

/// Returns a checksum as hexadecimal digits. Formatting it costs as much as the rest of a short line.
fn digits(checksum: u32) -> [u8; DIGITS] {
    let mut rest = checksum;
    let mut digits = [0; DIGITS];
    for digit in digits.iter_mut().rev() {
        let value = (rest & 0xf) as u8;
        *digit = if value < 10 { b'0' + value } else { b'a' + value - 10 };
        rest >>= 4;
    }
    digits
}

/// Returns whether a line has the form of a sealed line; its checksum can be wrong.
pub(crate) fn is_sealed(line: &[u8]) -> bool {
    line.starts_with(BEFORE)
}

/// Returns whether a line is text as it is written, changed or not. What a crash leaves instead has other bytes.
pub(crate) fn is_text(line: &[u8]) -> bool {
    !line.iter().any(u8::is_ascii_control) && std::str::from_utf8(line).is_ok()
}

/// Checks a line and returns its members: the object without its opening brace and the checksum.
///
/// # Errors
/// The reason why the line is damaged.
pub(crate) fn open(line: &[u8]) -> Result<&[u8], String> {
    let damaged = || "its checksum is damaged".to_owned();
    let (prefix, rest) = line.split_at_checked(PREFIX).ok_or_else(damaged)?;
    let digits = prefix.strip_prefix(BEFORE).and_then(|p| p.strip_suffix(AFTER)).ok_or_else(damaged)?;
    let expected = self::digits(crc32fast::hash(rest));
    if digits == expected {
        return Ok(rest);
    }
    let (found, expected) = (String::from_utf8_lossy(digits), String::from_utf8_lossy(&expected));
    Err(format!("its checksum is {found}, and that of its content is {expected}"))
}

/// The checksum of a sealed line, in its digits. The next line of a journal contains it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crc([u8; DIGITS]);

impl Crc {
    /// Returns the checksum that a sealed line begins with; `None` if it is not sealed.
    pub(crate) fn of(line: &[u8]) -> Option<Self> {
        line.get(BEFORE.len()..BEFORE.len() + DIGITS)?.try_into().ok().map(Self)
    }
}

impl Serialize for Crc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.0).map_err(serde::ser::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Crc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        let wrong = |_| serde::de::Error::custom("this is not a checksum");
        digits.as_bytes().try_into().map(Self).map_err(wrong)
    }
}

/// A checksum over the checksums of lines, which tells one file from another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Digest(crc32fast::Hasher);

impl Digest {
    /// Adds a sealed line.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.0.update(line.get(BEFORE.len()..PREFIX).unwrap_or_default());
    }

    pub(crate) fn finish(self) -> u32 {
        self.0.finalize()
    }
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
