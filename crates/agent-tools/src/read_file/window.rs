//! Reads a range of lines. Memory does not grow with the size of the file.

use std::io::{self, BufRead};

use agent_core::CancellationToken;

use super::MAX_LINE_BYTES;

/// The range of lines to read, and the maximum size of their text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The first line, counted from 1.
    pub(super) first: u64,
    /// The maximum number of lines.
    pub(super) count: u64,
    /// The maximum number of bytes.
    pub(super) bytes: u64,
}

/// The lines that were read.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The lines, each with a line end.
    text: String,
    /// The number of these lines.
    pub(super) shown: usize,
    /// The number of lines in the file.
    pub(super) total: usize,
    /// Whether requested lines were left out because of their size.
    pub(super) full: bool,
}

impl Window {
    /// Returns the lines, without line ends.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split_terminator('\n')
    }

    /// Returns the size of the lines with their line ends, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }
}

/// The reason why reading stopped early.
#[derive(Debug)]
pub(super) enum Stopped {
    Cancelled,
    Io(io::Error),
}

/// Reads the file to its end to count the lines, and returns the wanted ones. A last line without a line end counts.
pub(super) fn read_window(
    reader: &mut impl BufRead,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Result<Window, Stopped> {
    let mut window = Window::default();
    let mut line = Line::default();
    let mut left_bytes = wanted.bytes;
    let mut number = 1u64;
    loop {
        if stop.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Stopped::Io(error)),
        };
        let in_range = number >= wanted.first && (window.shown as u64) < wanted.count && !window.full;
        let (used, ended) = if chunk.is_empty() {
            if !line.begun {
                return Ok(window);
            }
            (0, true)
        } else if in_range {
            match memchr::memchr(b'\n', chunk) {
                Some(end) => {
                    line.push(chunk.get(..end).unwrap_or_default());
                    (end + 1, true)
                }
                None => {
                    line.push(chunk);
                    (chunk.len(), false)
                }
            }
        } else {
            // Outside of the range, lines are only counted.
            line.begun = true;
            match memchr::memchr(b'\n', chunk) {
                Some(end) => (end + 1, true),
                None => (chunk.len(), false),
            }
        };
        reader.consume(used);
        if !ended {
            continue;
        }
        if in_range {
            let text = line.take(number == 1);
            let size = text.len() as u64 + 1;
            // The first line is always returned; its size is limited by `MAX_LINE_BYTES`.
            if size > left_bytes && window.shown > 0 {
                window.full = true;
            } else {
                left_bytes = left_bytes.saturating_sub(size);
                window.text.push_str(&text);
                window.text.push('\n');
                window.shown += 1;
            }
        }
        line.begun = false;
        window.total += 1;
        number += 1;
    }
}

/// The line that is being read.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    dropped: usize,
    begun: bool,
}

impl Line {
    fn push(&mut self, part: &[u8]) {
        self.begun = true;
        let left_bytes = MAX_LINE_BYTES.saturating_sub(self.bytes.len());
        let (taken, rest) = part.split_at(left_bytes.min(part.len()));
        self.bytes.extend_from_slice(taken);
        self.dropped += rest.len();
    }

    /// Returns the line as text and resets it. A byte order mark is removed.
    fn take(&mut self, is_first: bool) -> String {
        let mut bytes = self.bytes.as_slice();
        if is_first {
            bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        }
        let text = if self.dropped > 0 {
            let shown = whole_characters(bytes);
            let left = self.dropped + (bytes.len() - shown.len());
            format!("{} ... (line cut, {left} bytes left out)", String::from_utf8_lossy(shown))
        } else {
            String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned()
        };
        *self = Self::default();
        text
    }
}

/// Removes an incomplete character from the end of `bytes`.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        Ok(_) | Err(_) => bytes,
    }
}
