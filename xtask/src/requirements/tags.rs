//! The tags in a doc comment.

use super::Requirement;

/// The most tags that one test may carry: one that shows more than three things shows none of them well.
pub(crate) const MAX_TAGS: usize = 3;

/// A word that is, or is meant as, the name of a requirement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    /// One that exists.
    Known(Requirement),
    /// A number that does not exist, or a name that is written otherwise (`REQ 1`, `B-12`, a range).
    Unknown(String),
}

/// The tags in `text`, in order.
pub(crate) fn tags_in(text: &str) -> Vec<Tag> {
    let bytes = text.as_bytes();
    let mut tags = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = text.get(at..).unwrap_or_default();
        let prefix = if rest.starts_with("REQ") { 3 } else { usize::from(rest.starts_with("B-")) };
        let begins = prefix > 0 && (at == 0 || !is_part(bytes[at - 1]));
        let after = bytes.get(at + prefix).copied().unwrap_or(b' ');
        let digit_next = bytes.get(at + prefix + 1).is_some_and(u8::is_ascii_digit);
        if !begins || !(after == b'-' || (prefix == 3 && (after == b' ' || after == b'_'))) || !digit_next {
            at += 1;
            while at < bytes.len() && !text.is_char_boundary(at) {
                at += 1;
            }
            continue;
        }
        let mut end = at + prefix + 1;
        while bytes.get(end).is_some_and(|b| is_part(*b)) {
            end += 1;
        }
        // A range would hide which of its numbers the test shows.
        if rest.get(end - at..).is_some_and(|r| r.starts_with("..") || r.starts_with("–")) {
            end += 2;
        }
        let word = text.get(at..end).unwrap_or(rest);
        tags.push(Requirement::parse(word).map_or_else(|| Tag::Unknown(word.to_owned()), Tag::Known));
        at = end;
    }
    tags
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}
