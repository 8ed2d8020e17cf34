//! Frames that differ in one string only.
//!
//! Nearly all frames of a reply have the same bytes but for one string: the next piece of a text or of the arguments of
//! a call. A [`Shape`] is learned from a frame that was read in full. A later frame that has the same bytes before and
//! after that string would be read the same, with another string in that place, so only the string is read. A frame
//! that is different in anything else does not fit and is read in full. No JSON is understood here but its strings.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
#[cfg(feature = "openai-chat")]
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::json::unescaped;

/// The most bytes of a frame, its string aside, that are kept.
const MAX_KEPT: usize = 4_096;

/// A member of no meaning that some vendors fill up with noise, so that the length of a frame says nothing.
const NOISE: &[&str] = &[r#""obfuscation":""#, r#""p":""#];

/// A member that counts the frames of a reply.
const NUMBER: &str = r#""sequence_number":"#;

/// What may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hole {
    /// The string.
    Text,
    /// A string that says nothing.
    Noise,
    /// Digits.
    Number,
}

/// The bytes around the string, and what the string means.
#[derive(Debug, Clone)]
pub(crate) struct Shape<K> {
    kind: Option<K>,
    /// Whether a frame to learn from has come already.
    met: bool,
    /// Bytes, and what stands behind them.
    pieces: Vec<(Box<str>, Hole)>,
    /// The bytes behind the last hole.
    tail: Box<str>,
}

impl<K> Default for Shape<K> {
    fn default() -> Self {
        Self { kind: None, met: false, pieces: Vec::new(), tail: Box::default() }
    }
}

impl<K: Copy> Shape<K> {
    /// Learns from the second such frame on: a reply with only one has no use for it.
    pub(crate) fn learn(&mut self, frame: &str, member: &str, text: &str, kind: K) {
        if std::mem::replace(&mut self.met, true) {
            self.keep(frame, member, text, kind);
        }
    }

    /// Learns from a frame in which `text` stands as the value of `member`, written `"member":"`, and whose whole effect
    /// is that of `text` as `kind` says. A `text` that is not found in `frame` teaches nothing.
    fn keep(&mut self, frame: &str, member: &str, text: &str, kind: K) {
        self.kind = None;
        let borrowed = (text.as_ptr() as usize).wrapping_sub(frame.as_ptr() as usize);
        let found = match frame.get(borrowed..) {
            Some(rest) if rest.starts_with(text) => frame.split_at_checked(borrowed),
            _ => escaped(frame, member, text),
        };
        let Some((before, rest)) = found else { return };
        let Some((len, escaped)) = string(rest) else { return };
        if !escaped && len != text.len() {
            return;
        }
        let Some(after) = rest.get(len..) else { return };
        let fits = before.ends_with('"') && after.starts_with('"');
        if text.is_empty() || !fits || before.len().saturating_add(after.len()) > MAX_KEPT {
            return;
        }
        self.pieces.clear();
        let Some(last) = self.holes(before) else { return };
        self.pieces.push((last.into(), Hole::Text));
        let Some(tail) = self.holes(after) else { return };
        self.tail = tail.into();
        self.kind = Some(kind);
    }

    /// Keeps the bytes up to each hole in a part of a frame, and gives back what stands behind the last. `None` when a
    /// hole holds something else than it should.
    fn holes<'f>(&mut self, mut part: &'f str) -> Option<&'f str> {
        loop {
            // All begin with a quote, and looking at each quote is faster than looking for each in the whole.
            let quotes = memchr::memchr_iter(b'"', part.as_bytes());
            let mut holes = quotes.filter_map(|at| {
                let rest = part.get(at..)?;
                if rest.starts_with(NUMBER) {
                    return Some((at + NUMBER.len(), Hole::Number));
                }
                let noise = NOISE.iter().find(|noise| rest.starts_with(**noise))?;
                Some((at + noise.len(), Hole::Noise))
            });
            let Some((end, hole)) = holes.next() else { return Some(part) };
            let (before, rest) = part.split_at_checked(end)?;
            part = hole.skip(rest)?;
            self.pieces.push((before.into(), hole));
        }
    }

    /// The string of a frame that fits, and what it means.
    pub(crate) fn read<'f>(&self, frame: &'f str) -> Option<(K, Cow<'f, str>)> {
        let kind = self.kind?;
        let mut rest = frame;
        let mut text = None;
        for (before, hole) in &self.pieces {
            rest = rest.strip_prefix(&**before)?;
            if *hole == Hole::Text {
                let (len, escaped) = string(rest)?;
                text = Some((frame.len() - rest.len(), len, escaped));
                rest = rest.get(len..)?;
            } else {
                rest = hole.skip(rest)?;
            }
        }
        if rest != &*self.tail {
            return None;
        }
        let (start, len, escaped) = text?;
        if escaped {
            let quoted = frame.get(start.checked_sub(1)?..=start.saturating_add(len))?;
            return unescaped(quoted).map(|text| (kind, Cow::Owned(text)));
        }
        Some((kind, Cow::Borrowed(frame.get(start..start.saturating_add(len))?)))
    }
}

/// The most shapes that outlive the reply from which they were learned.
#[cfg(feature = "openai-chat")]
const MAX_SHARED: usize = 16;

/// Shapes of what stands behind that in a frame which names the reply: they fit the frames of later replies, too. The last
/// is the newest.
#[cfg(feature = "openai-chat")]
#[derive(Debug)]
pub(crate) struct Shapes<K>(Mutex<Vec<Arc<Shape<K>>>>);

#[cfg(feature = "openai-chat")]
impl<K: Copy> Shapes<K> {
    /// None.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// The shape that a frame has.
    pub(crate) fn find(&self, frame: &str) -> Option<Arc<Shape<K>>> {
        self.lock().iter().rev().find(|shape| shape.read(frame).is_some()).cloned()
    }

    /// Learns from a frame as [`Shape::learn`] does, at once.
    pub(crate) fn learn(&self, frame: &str, member: &str, text: &str, kind: K) -> Option<Arc<Shape<K>>> {
        let mut shape = Shape::default();
        shape.keep(frame, member, text, kind);
        shape.kind?;
        let shape = Arc::new(shape);
        let mut shapes = self.lock();
        if shapes.len() >= MAX_SHARED {
            shapes.remove(0);
        }
        shapes.push(Arc::clone(&shape));
        Some(shape)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Shape<K>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hole {
    /// What stands behind what stands here, unless it is something else than it should be.
    fn skip(self, text: &str) -> Option<&str> {
        match self {
            Self::Number => {
                let len = text.bytes().take_while(u8::is_ascii_digit).count();
                let plain = len > 0 && (len == 1 || !text.starts_with('0'));
                text.get(len..).filter(|rest| plain && rest.starts_with([',', '}']))
            }
            Self::Text | Self::Noise => {
                let (len, _) = string(text).filter(|(_, escaped)| !escaped)?;
                text.get(len..)
            }
        }
    }
}

/// Splits a frame before a string that holds escapes: the value of the one member of this name, if that is `text`. A
/// quote that no backslash precedes and that a word follows begins a string, so what is found is a member.
fn escaped<'f>(frame: &'f str, member: &str, text: &str) -> Option<(&'f str, &'f str)> {
    let key = format!("\"{member}\"");
    let mut found = memchr::memmem::find_iter(frame.as_bytes(), key.as_bytes());
    let (at, None) = (found.next()?, found.next()) else { return None };
    let (before, rest) = frame.split_at_checked(at)?;
    let rest = rest.strip_prefix(key.as_str())?.strip_prefix(":\"")?;
    let (len, true) = string(rest)? else { return None };
    let (start, quoted) = (frame.len() - rest.len(), frame.len() - rest.len() - 1);
    let string = frame.get(quoted..=start + len)?;
    let is_it = !before.ends_with('\\') && unescaped(string).is_some_and(|s| s == text);
    is_it.then_some((frame.get(..start)?, rest))
}

/// How long the string is that `text` begins with, up to its closing quote, and whether it holds escapes. `None` when
/// it has no end or holds a byte that JSON does not allow in a string.
pub(crate) fn string(text: &str) -> Option<(usize, bool)> {
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

/// Marks the bytes of eight that are a quote, a backslash or a control character, by their highest bits. The lowest
/// mark is right; those above it may not be.
fn special(eight: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(ONES * limit) & !bytes;
    let quote = below(eight ^ (ONES * 0x22), 1);
    let backslash = below(eight ^ (ONES * 0x5c), 1);
    (below(eight, 0x20) | quote | backslash) & HIGHEST
}
