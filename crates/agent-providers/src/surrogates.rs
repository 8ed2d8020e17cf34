//! Repairs surrogate pairs that are split between two frames.
//!
//! Some servers split a text between the two halves of an emoji and send each half as an escape in a separate frame:
//! `"\ud83c"`, then `"\udf89"`. JSON parsers reject such strings. The decoders use [`Surrogates`] only for a frame that
//! serde has rejected. It stores a first half at the end of a string until a frame begins a string with the second half.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

/// Stores the first half of a pair between two frames.
#[derive(Debug, Default)]
pub(crate) struct Surrogates {
    high: Option<u16>,
}

/// The length of a `\uXXXX` escape in bytes.
const ESCAPE: usize = 6;

impl Surrogates {
    /// Returns whether a frame may contain half pairs.
    pub(crate) fn suspected(text: &str) -> bool {
        memchr::memmem::find(text.as_bytes(), b"\\ud").is_some()
            || memchr::memmem::find(text.as_bytes(), b"\\uD").is_some()
    }

    /// Returns a whole body, repaired if serde rejects it and it may contain half pairs.
    pub(crate) fn mend_whole<'b>(&mut self, body: &'b str) -> Cow<'b, str> {
        if Self::suspected(body) && serde_json::from_str::<serde_json::Value>(body).is_err() {
            Cow::Owned(self.mend(body))
        } else {
            Cow::Borrowed(body)
        }
    }

    /// Returns the frame with each half joined to its other half, stored for a later frame or replaced by U+FFFD.
    pub(crate) fn mend(&mut self, json: &str) -> String {
        let mut out = String::with_capacity(json.len());
        let mut rest = json;
        let mut in_string = false;
        let mut at_start = false;
        while let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
            let (before, tail) = rest.split_at(at);
            out.push_str(before);
            at_start &= before.is_empty();
            if let Some(after) = tail.strip_prefix('"') {
                in_string = !in_string;
                at_start = in_string;
                out.push('"');
                rest = after;
                continue;
            }
            let Some(unit) = escape(tail) else {
                // Any other escape is two characters; the second may be a quote or a backslash.
                let len = tail.char_indices().nth(2).map_or(tail.len(), |(i, _)| i);
                let (this, after) = tail.split_at(len);
                out.push_str(this);
                rest = after;
                at_start = false;
                continue;
            };
            let (this, after) = tail.split_at(ESCAPE);
            rest = after;
            match unit {
                0xD800..=0xDBFF => match escape(after) {
                    Some(low @ 0xDC00..=0xDFFF) => {
                        push_pair(&mut out, unit, low);
                        rest = after.get(ESCAPE..).unwrap_or_default();
                    }
                    _ if after.starts_with('"') && self.high.is_none() => self.high = Some(unit),
                    _ => out.push(char::REPLACEMENT_CHARACTER),
                },
                0xDC00..=0xDFFF => match self.high.take_if(|_| at_start) {
                    Some(high) => push_pair(&mut out, high, unit),
                    None => out.push(char::REPLACEMENT_CHARACTER),
                },
                _ => out.push_str(this),
            }
            at_start = false;
        }
        out.push_str(rest);
        out
    }
}

/// Returns the code unit of a `\uXXXX` escape at the start of `text`.
fn escape(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

fn push_pair(out: &mut String, high: u16, low: u16) {
    out.extend(char::decode_utf16([high, low]).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
}
