//! A window of lines, read in memory that does not grow with the file (B-169).

use std::io::{self, BufRead};

use agent_core::CancellationToken;

use super::MAX_LINE_BYTES;

/// Which lines are wanted, and how much of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The first, counted from 1.
    pub(super) first: u64,
    /// How many at most.
    pub(super) count: u64,
    /// How many bytes of them at most.
    pub(super) bytes: u64,
}

/// The lines that were found.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// The lines, without their ends.
    pub(super) lines: Vec<String>,
    /// How many lines the file has.
    pub(super) total: usize,
    /// Whether more lines were wanted than fit.
    pub(super) full: bool,
}

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    Cancelled,
    Io(io::Error),
}

/// Reads to the end, to count the lines, and keeps what is wanted. A last line without an end counts.
pub(super) fn read_window(
    reader: &mut impl BufRead,
    wanted: Wanted,
    stop: &CancellationToken,
) -> Result<Window, Stopped> {
    let mut window = Window::default();
    let mut line = Line::default();
    let mut room = wanted.bytes;
    let mut kept = 0u64;
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
        let keeping = number >= wanted.first && kept < wanted.count && !window.full;
        let (used, ended) = if chunk.is_empty() {
            if !line.begun {
                return Ok(window);
            }
            (0, true)
        } else if keeping {
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
            // Only counting: whole chunks, up to the line where keeping begins.
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
        if keeping {
            let text = line.take(number == 1);
            let size = text.len() as u64 + 1;
            // The first line always fits: it has a bound of its own.
            if size > room && !window.lines.is_empty() {
                window.full = true;
            } else {
                room = room.saturating_sub(size);
                window.lines.push(text);
                kept += 1;
            }
        }
        line.begun = false;
        window.total += 1;
        number += 1;
    }
}

/// One line while it comes in.
#[derive(Debug, Default)]
struct Line {
    bytes: Vec<u8>,
    dropped: usize,
    begun: bool,
}

impl Line {
    fn push(&mut self, part: &[u8]) {
        self.begun = true;
        let room = MAX_LINE_BYTES.saturating_sub(self.bytes.len());
        let (kept, rest) = part.split_at(room.min(part.len()));
        self.bytes.extend_from_slice(kept);
        self.dropped += rest.len();
    }

    /// The line as text, and an empty one in its place. A byte order mark is no text.
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

/// `bytes` without the beginning of a character at its end that a cut has left there.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or(bytes),
        Ok(_) | Err(_) => bytes,
    }
}
