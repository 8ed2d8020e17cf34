//! Reads stream frames that differ from an earlier frame only in known places.
//!
//! Most frames of a streamed reply have the same bytes except for one string, which is the next piece of text or of a
//! call's arguments, and a few members that the decoder never reads: timestamps, counters, padding, lists of token ids.
//! A [`Shape`] is learned from a frame that serde has read. A later frame with the same fixed bytes has the same
//! meaning, so only its string is read. Every other frame goes through serde. A shape belongs to one reply.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::de::IgnoredAny;

use crate::json::unescaped;

/// The maximum size of a frame that is learned, without its text, in bytes.
const MAX_FRAME: usize = 4_096;

/// The number of consecutive shapes that fit no frame after which a reply's shape stops learning.
const MAX_MISSES: u8 = 16;

/// The members of a protocol's frames that may vary without changing the meaning of a frame.
#[derive(Debug)]
pub(crate) struct Varying {
    /// Names of members that the decoder does not read at any depth.
    pub(crate) unread: &'static [&'static str],
    /// Names of members that may hold the same string as the member with the text.
    pub(crate) repeated: &'static [&'static str],
}

/// A place in a frame whose bytes may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hole {
    /// The inside of the string. A second hole of this kind holds the same bytes as the first.
    Text,
    /// Any JSON value, which is skipped.
    Unread,
}

/// The fixed bytes of a frame and the meaning `K` of its string.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Shape<K> {
    varying: &'static Varying,
    kind: Option<K>,
    /// Whether a frame to learn from has been seen.
    seen: bool,
    /// How many shapes have been learned since a frame last fitted.
    misses: u8,
    /// The fixed pieces, joined.
    fixed: String,
    /// The end of each piece in `fixed`, and the hole behind it. Thousands of replies may stream at once, so this is small.
    holes: Vec<(u16, Hole)>,
}

impl<K: Copy> Default for Shape<K> {
    /// Returns a shape for frames in which only the text varies.
    fn default() -> Self {
        Self::new(&Varying { unread: &[], repeated: &[] })
    }
}

impl<K: Copy> Shape<K> {
    /// Returns a shape that fits no frame yet.
    pub(crate) const fn new(varying: &'static Varying) -> Self {
        Self { varying, kind: None, seen: false, misses: 0, fixed: String::new(), holes: Vec::new() }
    }

    /// Forgets the frame that was learned last, so that no frame fits.
    pub(crate) fn forget(&mut self) {
        self.kind = None;
    }

    /// Learns from `frame`, in which `text` is the value of `member`. The caller guarantees that `kind` and `text`
    /// determine the whole effect of the frame. The first such frame of a reply is not learned, because short replies
    /// would not repay the work.
    pub(crate) fn learn(&mut self, frame: &str, member: &str, text: &str, kind: K) {
        if !std::mem::replace(&mut self.seen, true) || self.misses >= MAX_MISSES {
            return;
        }
        self.misses += 1;
        self.kind = self.pieces(frame, member, text).map(|()| kind);
    }

    /// Splits `frame` into fixed pieces and holes. Returns `None` when the text cannot be located with certainty.
    fn pieces(&mut self, frame: &str, member: &str, text: &str) -> Option<()> {
        self.fixed.clear();
        self.holes.clear();
        if frame.len().saturating_sub(text.len()) > MAX_FRAME {
            return None;
        }
        self.fixed.reserve_exact(frame.len().saturating_sub(text.len()));
        let end = frame.trim_end_matches(' ').strip_suffix('}')?.trim_end_matches(' ').len();
        // A text without escapes is borrowed from the frame, which gives its place. Otherwise its name must be unique.
        let borrowed = (text.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
        let is_borrowed = borrowed < frame.len();
        let (mut at, mut done, mut found) = (0, 0, 0);
        while let Some(quote) = memchr::memchr(b'"', frame.as_bytes().get(at..end)?) {
            let start = at + quote + 1;
            let (len, _) = string(frame.get(start..)?)?;
            at = start + len + 1;
            let key = frame.get(start..start + len)?;
            let Some(value) = frame.get(at..)?.strip_prefix(':') else { continue };
            let value = value.trim_start_matches(' ');
            let value_at = frame.len() - value.len();
            at = value_at;
            if self.varying.unread.contains(&key) {
                let rest = skip(value)?;
                self.hole(frame.get(done..value_at)?, Hole::Unread)?;
                at = frame.len() - rest.len();
                done = at;
            } else if let Some(value) = value.strip_prefix('"') {
                let (len, escaped) = string(value)?;
                let start = value_at + 1;
                at = start + len + 1;
                let the_text = if is_borrowed { start == borrowed } else { key == member };
                if !the_text && !self.varying.repeated.contains(&key) {
                    continue;
                }
                let same = if escaped {
                    unescaped(frame.get(value_at..at)?).is_some_and(|value| value == text)
                } else {
                    value.get(..len) == Some(text)
                };
                if same {
                    self.hole(frame.get(done..start)?, Hole::Text)?;
                    done = start + len;
                }
                found += usize::from(the_text);
                if the_text && !same {
                    return None;
                }
            }
        }
        self.fixed.push_str(frame.get(done..end)?);
        (found == 1 && !text.is_empty()).then_some(())
    }

    /// Appends a fixed piece and the hole behind it.
    fn hole(&mut self, piece: &str, hole: Hole) -> Option<()> {
        self.fixed.push_str(piece);
        self.holes.push((u16::try_from(self.fixed.len()).ok()?, hole));
        Some(())
    }

    /// Returns the string of a frame that fits, and what it means.
    pub(crate) fn read<'f>(&mut self, frame: &'f str) -> Option<(K, Cow<'f, str>)> {
        let kind = self.kind?;
        let mut text: Option<(usize, usize, bool)> = None;
        let (mut rest, mut from) = (frame, 0);
        for (to, hole) in &self.holes {
            let to = usize::from(*to);
            rest = rest.strip_prefix(self.fixed.get(from..to)?)?;
            from = to;
            rest = match (hole, text) {
                (Hole::Unread, _) => skip(rest)?,
                (Hole::Text, None) => {
                    let start = frame.len() - rest.len();
                    let (len, escaped) = string(rest)?;
                    text = Some((start, start.saturating_add(len), escaped));
                    rest.get(len..)?
                }
                (Hole::Text, Some((start, end, _))) => rest.strip_prefix(frame.get(start..end)?)?,
            };
        }
        // Some vendors pad their frames with spaces before the last brace.
        let rest = rest.strip_prefix(self.fixed.get(from..)?)?.trim_start_matches(' ').strip_prefix('}')?;
        if !rest.trim_start_matches(' ').is_empty() {
            return None;
        }
        let (start, end, escaped) = text?;
        let text = if escaped {
            Cow::Owned(unescaped(frame.get(start.checked_sub(1)?..=end)?)?)
        } else {
            Cow::Borrowed(frame.get(start..end)?)
        };
        self.misses = 0;
        Some((kind, text))
    }
}

/// Returns what follows the JSON value at the start of `text`, or `None` when there is no valid one.
fn skip(text: &str) -> Option<&str> {
    match text.as_bytes().first()? {
        b'"' => {
            let inside = text.get(1..)?;
            if let Some((len, false)) = string(inside) {
                return inside.get(len + 1..);
            }
        }
        b'n' => return text.strip_prefix("null"),
        b'1'..=b'9' => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let rest = text.get(digits..)?;
            if rest.starts_with([',', '}']) {
                return Some(rest);
            }
        }
        _ => {}
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    text.get(values.byte_offset()..)
}

/// Returns the length of the string that `text` begins with, up to its closing quote, and whether it holds escapes.
/// Returns `None` when it has no end or holds a byte that JSON does not allow in a string.
fn string(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let (mut at, mut escaped) = (0, false);
    loop {
        let rest = bytes.get(at..)?;
        at += match rest.first_chunk() {
            Some(eight) => match special(u64::from_le_bytes(*eight)) {
                0 => {
                    at += 8;
                    continue;
                }
                marks => usize::try_from(marks.trailing_zeros() / 8).ok()?,
            },
            None => rest.iter().position(|b| matches!(b, 0..0x20 | b'"' | b'\\'))?,
        };
        match bytes.get(at)? {
            b'"' => return Some((at, escaped)),
            b'\\' => {
                escaped = true;
                at += 2;
            }
            _ => return None,
        }
    }
}

/// Marks the bytes of eight that are a quote, a backslash or a control character, by their highest bits. Only the lowest
/// mark is reliable.
fn special(eight: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(ONES * limit) & !bytes;
    let quote = below(eight ^ (ONES * 0x22), 1);
    let backslash = below(eight ^ (ONES * 0x5c), 1);
    (below(eight, 0x20) | quote | backslash) & HIGHEST
}
