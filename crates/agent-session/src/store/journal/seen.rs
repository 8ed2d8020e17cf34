//! Long texts that are written already.

use std::collections::{BTreeMap, VecDeque};

/// How many bytes of texts are remembered. What is older is written again when it comes again.
const REMEMBERED: usize = 4 << 20;

/// Bytes of a text that its key is made of: so many at its beginning, in its middle and at its end.
const SAMPLE: usize = 16;

/// The texts of a journal, numbered in the order in which they were written. Two texts are the same when all their bytes
/// are: the key only finds the one to compare with.
#[derive(Debug, Default)]
pub(crate) struct SeenTexts {
    next: u64,
    texts: BTreeMap<Key, (u64, Box<str>)>,
    order: VecDeque<(Key, u64)>,
    bytes: usize,
}

type Key = (usize, [u8; SAMPLE], [u8; SAMPLE], [u8; SAMPLE]);

impl SeenTexts {
    /// The text's number, when it is there; else it gets the next one.
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
