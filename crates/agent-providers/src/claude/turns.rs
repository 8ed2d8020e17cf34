//! Writes messages as lists of blocks and records the positions for cache markers.

use agent_core::Encoded;

use crate::json;

/// Whether a marker may go into a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marked {
    /// A marker is allowed.
    Yes,
    /// A marker is not allowed.
    No,
    /// A marker is not allowed, and the block must not be the last of its message.
    Thinking,
}

/// The position of a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Before the closing brace of a block.
    Inside,
    /// After the block.
    Behind,
}

/// The messages that have been written.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub(crate) out: Vec<u8>,
    marks: Vec<u32>,
    /// The beginning of a text block, up to its text, and the position of a marker.
    text: &'static [u8],
    place: Mark,
    /// The positions of the message and of its first block.
    message: usize,
    first: usize,
    /// The end of the last block that is not thinking.
    solid: usize,
    mark: Option<usize>,
}

impl Blocks {
    /// Creates an empty list. Each text block begins with `text`.
    pub(crate) fn new(text: &'static [u8], place: Mark) -> Self {
        Self { out: Vec::new(), marks: Vec::new(), text, place, message: 0, first: 0, solid: 0, mark: None }
    }

    /// Returns the messages with the positions for markers.
    pub(crate) fn encoded(self) -> Encoded {
        Encoded::new(self.out, self.marks)
    }

    /// Begins a message.
    pub(crate) fn open(&mut self, head: &[u8]) {
        self.message = self.out.len();
        if !self.out.is_empty() {
            self.out.push(b',');
        }
        self.out.extend_from_slice(head);
        self.first = self.out.len();
        self.solid = self.first;
        self.mark = None;
    }

    /// Writes a block after the ones before it.
    pub(crate) fn block(&mut self, marked: Marked, write: impl FnOnce(&mut Vec<u8>)) {
        if self.out.len() > self.first {
            self.out.push(b',');
        }
        write(&mut self.out);
        if marked != Marked::Thinking {
            self.solid = self.out.len();
        }
        if marked == Marked::Yes {
            self.mark = Some(match self.place {
                Mark::Inside => self.out.len().saturating_sub(1),
                Mark::Behind => self.out.len(),
            });
        }
    }

    /// Writes a block of text.
    pub(crate) fn text(&mut self, text: Option<&str>) {
        let Some(text) = text else { return };
        let head = self.text;
        self.block(Marked::Yes, |out| {
            out.extend_from_slice(head);
            json::write(out, text);
            out.push(b'}');
        });
    }

    /// Ends the message. Thinking at its end is removed, because the API rejects it. An empty message is removed.
    pub(crate) fn close(&mut self) {
        if self.solid == self.first {
            self.out.truncate(self.message);
            return;
        }
        self.out.truncate(self.solid);
        self.out.extend_from_slice(b"]}");
        self.marks.push(self.mark.and_then(|m| u32::try_from(m).ok()).unwrap_or(Encoded::NO_MARK));
    }
}
