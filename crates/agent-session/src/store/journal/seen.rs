//! The long texts that a journal already contains.

use std::collections::{BTreeMap, VecDeque};

/// The maximum total size of remembered texts in bytes. An older text is written again when it occurs again.
const REMEMBERED: usize = 4 << 20;

/// The number of bytes that a key takes from the beginning, the middle and the end of a text.
const SAMPLE: usize = 16;

/// The texts of a journal, numbered in the order in which they were written. The key only finds a candidate; texts are
/// compared in full.
#[derive(Debug, Default)]
pub(crate) struct SeenTexts {
    next: u64,
    texts: BTreeMap<Key, (u64, Box<str>)>,
    order: VecDeque<(Key, u64)>,
    bytes: usize,
}

type Key = (usize, [u8; SAMPLE], [u8; SAMPLE], [u8; SAMPLE]);

impl SeenTexts {
    /// Returns the number of a known text. A new text gets the next number and returns `None`.
    pub(crate) fn place_of(&mut self, text: &str) -> Option<u64> {
        let key = key_of(text);
        if let Some((number, known)) = self.texts.get(&key)
            && **known == *text
        {
            return Some(*number);
        }
        let number = self.next;
        self.next += 1;
        if text.len() <= REMEMBERED {
            self.bytes += text.len();
            if let Some((_, before)) = self.texts.insert(key, (number, text.into())) {
                self.bytes -= before.len();
            }
            self.order.push_back((key, number));
            self.forget();
        }
        None
    }

    fn forget(&mut self) {
        while self.bytes > REMEMBERED
            && let Some((key, number)) = self.order.pop_front()
        {
            if self.texts.get(&key).is_some_and(|(n, _)| *n == number)
                && let Some((_, text)) = self.texts.remove(&key)
            {
                self.bytes -= text.len();
            }
        }
    }
}

fn key_of(text: &str) -> Key {
    let bytes = text.as_bytes();
    let sample = |from: usize| {
        let mut part = [0; SAMPLE];
        for (to, byte) in part.iter_mut().zip(bytes.get(from..).unwrap_or_default()) {
            *to = *byte;
        }
        part
    };
    (bytes.len(), sample(0), sample(bytes.len() / 2), sample(bytes.len().saturating_sub(SAMPLE)))
}
