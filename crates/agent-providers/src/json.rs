//! Writes JSON directly to a buffer, and reads strings and counts without copying.
//!
//! Requests are written member by member, so that the keys have a fixed order and no tree is built.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, Visitor};

#[cfg(test)]
mod tests;

/// Appends `value` as JSON. Writing never fails for values of this crate, because all their keys are strings.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Writes the members of an object and the commas between them.
pub(crate) struct Members<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> Members<'o> {
    /// Opens an object.
    pub(crate) fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, empty: true }
    }

    /// Begins a member and returns the buffer to write its value to. `name` must not need escapes.
    pub(crate) fn key(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.out.extend_from_slice(if std::mem::take(&mut self.empty) { b"\"" } else { b",\"" });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// Writes a member.
    pub(crate) fn field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> &mut Self {
        write(self.key(name), value);
        self
    }

    /// Writes a member with any name.
    #[cfg(any(feature = "openai-chat", feature = "openai-responses", feature = "anthropic"))]
    pub(crate) fn named<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> &mut Self {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
        write(self.out, name);
        self.out.push(b':');
        write(self.out, value);
        self
    }

    /// Closes the object.
    pub(crate) fn close(self) {
        self.out.push(b'}');
    }
}

/// Decodes a JSON string, given with its quotes. This is several times as fast as serde for the common escapes; serde decodes
/// strings with `\u` escapes. The inside must not contain unescaped quotes.
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, reason = "some protocols read no strings by themselves")
)]
pub(crate) fn unescaped(quoted: &str) -> Option<String> {
    let mut rest = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut said = String::with_capacity(rest.len());
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at_checked(at)?;
        said.push_str(plain);
        said.push(match escape.as_bytes().get(1)? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            _ => return serde_json::from_str(quoted).ok(),
        });
        rest = escape.get(2..)?;
    }
    said.push_str(rest);
    Some(said)
}

/// A string that borrows from its source unless it contains escapes. Null, lists and objects are read as an empty string.
///
/// `Option<Cow<str>>` with `#[serde(borrow)]` would always copy.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text unless it is empty.
    pub(crate) fn filled(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&*self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(value.to_string())))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<de::IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}

/// A number of a vendor that is not a token count, for example an index. Negative numbers and null are read as 0, fractions
/// are truncated, and strings are parsed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Count, E> {
        Ok(Count(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(value).unwrap_or(0)))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count; the cast saturates"
    )]
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Count, E> {
        Ok(Count(value as u64))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Count, E> {
        Ok(Count(0))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.parse().unwrap_or(0)))
    }
}
