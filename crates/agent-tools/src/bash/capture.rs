//! The output of a command, kept with bounds while it comes in.

use std::collections::VecDeque;

use crate::text;

/// What is said where output was thrown away (REQ-096).
pub(super) const TRUNCATED: &str = "\n... (output truncated)";

/// The beginning of one stream.
#[derive(Debug)]
pub(super) struct Capture {
    kept: Vec<u8>,
    max: usize,
    truncated: bool,
}

impl Capture {
    pub(super) fn new(max: usize) -> Self {
        Self { kept: Vec::new(), max, truncated: false }
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let room = self.max - self.kept.len();
        let kept = part.get(..room).unwrap_or(part);
        self.kept.extend_from_slice(kept);
        self.truncated |= kept.len() < part.len();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && !self.truncated
    }

    /// The stream as text, cut between two characters. Bytes that are no UTF-8 become U+FFFD.
    pub(super) fn text(&self) -> String {
        let mut bytes = self.kept.as_slice();
        if self.truncated
            && let Err(error) = std::str::from_utf8(bytes)
            && error.error_len().is_none()
        {
            // The cut went through the last character.
            bytes = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
        }
        let whole = String::from_utf8_lossy(bytes);
        // Replaced bytes take three times their room.
        let shown = text::head(&whole, self.max);
        if self.truncated || shown.len() < whole.len() {
            format!("{shown}{TRUNCATED}")
        } else {
            shown.to_owned()
        }
    }
}

/// The last of both streams as they came in, for somebody who watches.
#[derive(Debug, Default)]
pub(super) struct Live {
    last: VecDeque<u8>,
    is_new: bool,
}

/// How much of the output a watcher is shown at a time.
const LIVE_BYTES: usize = 16 * 1024;

impl Live {
    pub(super) fn push(&mut self, part: &[u8]) {
        self.last.extend(part);
        let over = self.last.len().saturating_sub(LIVE_BYTES);
        self.last.drain(..over);
        self.is_new |= !part.is_empty();
    }

    /// The text to show, when there is more than last time.
    pub(super) fn take_new(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.is_new) {
            return None;
        }
        let bytes: &[u8] = self.last.make_contiguous();
        // The end of the character that the cut went through.
        let torn = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        Some(String::from_utf8_lossy(bytes.get(torn..).unwrap_or_default()).into_owned())
    }
}
