//! Caches the encoded form of a piece of history, so that it is encoded once.
//!
//! ```
//! use agent_core::{Encoded, WireCache, WireKey};
//! let cache = WireCache::default();
//! let key = WireKey::new(&["anthropic_messages", "claude"]);
//! let mut made = 0;
//! for _ in 0..2 {
//!     cache.with(key, || { made += 1; Encoded::new(b"{}".to_vec(), vec![]) }, |e| assert_eq!(e.bytes(), b"{}"));
//! }
//! assert_eq!(made, 1);
//! ```

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The number of forms that are cached beside the first one. An agent that alternates between more models encodes its
/// history again for each change.
const MAX_OTHERS: usize = 3;

/// The key of an encoded form: everything that the bytes depend on besides the encoded unit, such as protocol, model
/// and dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireKey(u64, u64);

impl WireKey {
    /// Creates a key from the texts that the bytes depend on.
    #[must_use]
    pub fn new(parts: &[&str]) -> Self {
        Self(0xcbf2_9ce4_8422_2325, 0x6a09_e667_f3bc_c908).and(parts)
    }

    /// Extends the key with further texts.
    #[must_use]
    pub fn and(mut self, parts: &[&str]) -> Self {
        for part in parts {
            // The length comes first, so that ("ab", "c") differs from ("a", "bc").
            self.mix(part.len() as u64);
            let (words, rest) = part.as_bytes().as_chunks();
            words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
            if !rest.is_empty() {
                self.mix(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
            }
        }
        self
    }

    /// Mixes a word into two independent lanes. The key is computed for each request and is not stored.
    fn mix(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 ^= self.0 >> 32;
        self.1 = (self.1.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.1 ^= self.1 >> 29;
    }
}

/// Encoded bytes, with the offsets at which a cache marker may be inserted.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Encoded {
    bytes: Box<[u8]>,
    marks: Box<[u32]>,
}

impl Encoded {
    /// The mark of a message into which no marker may be inserted.
    pub const NO_MARK: u32 = u32::MAX;

    /// Creates an encoded form with one offset per message, in order; [`NO_MARK`](Self::NO_MARK) where no marker may
    /// be inserted.
    #[must_use]
    pub fn new(bytes: impl Into<Box<[u8]>>, marks: impl Into<Box<[u32]>>) -> Self {
        Self { bytes: bytes.into(), marks: marks.into() }
    }

    /// Returns the encoded bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the offsets, one per message.
    #[must_use]
    pub fn marks(&self) -> &[u32] {
        &self.marks
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoded").field("bytes", &self.bytes.len()).field("marks", &self.marks).finish()
    }
}

/// Caches encoded forms by key. Forms of several keys are cached, because conversations often alternate between two
/// models.
#[derive(Default)]
pub struct WireCache {
    /// The first form, usually the only one, which is read without a lock.
    first: OnceLock<(WireKey, Encoded)>,
    others: Mutex<Vec<(WireKey, Encoded)>>,
}

/// Shows the number of stored forms.
impl fmt::Debug for WireCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner).len();
        let forms = usize::from(self.first.get().is_some()) + others;
        f.debug_struct("WireCache").field("forms", &forms).finish_non_exhaustive()
    }
}

impl WireCache {
    /// Calls `read` with the form of `key`; `make` creates it if it is missing.
    pub fn with<R>(
        &self,
        key: WireKey,
        make: impl FnOnce() -> Encoded,
        read: impl FnOnce(&Encoded) -> R,
    ) -> R {
        // `make` runs once. If another thread stored a different key first, this form is one of the others.
        let mut make = Some(make);
        let (first, encoded) =
            self.first.get_or_init(|| (key, make.take().map_or_else(Encoded::default, |m| m())));
        if *first == key {
            return read(encoded);
        }
        let Some(make) = make else { return read(encoded) };
        let mut slots = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, encoded)) = slots.iter().find(|(k, _)| *k == key) {
            return read(encoded);
        }
        let encoded = make();
        let out = read(&encoded);
        if slots.len() >= MAX_OTHERS {
            slots.remove(0);
        }
        slots.push((key, encoded));
        out
    }
}
