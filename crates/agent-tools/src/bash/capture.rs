//! Captures the output of a command with a limit on memory.

use std::collections::VecDeque;

use crate::output_store::{OutputStore, OutputStoreError, OutputWriter, StoredOutput};
use crate::text;

/// The notice after truncated output.
pub(super) const TRUNCATED: &str = "\n... (output truncated)";

/// The beginning of one output stream. If there is a store, the whole of a long stream goes there.
#[derive(Debug)]
pub(super) struct Capture {
    beginning: Vec<u8>,
    max: usize,
    truncated: bool,
    store: Option<OutputStore>,
    whole: Option<OutputWriter>,
    /// The outcome of storing the whole stream.
    stored: Option<Result<StoredOutput, OutputStoreError>>,
}

/// The part of a stream that the model receives.
struct Shown {
    text: String,
    /// The length of that part in bytes of the stream; 0 if replaced bytes make it unknown.
    bytes: usize,
    is_cut: bool,
}

impl Capture {
    pub(super) fn new(max: usize, store: Option<OutputStore>) -> Self {
        Self { beginning: Vec::new(), max, truncated: false, store, whole: None, stored: None }
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let free = self.max - self.beginning.len();
        let fits = part.get(..free).unwrap_or(part);
        let rest = part.get(fits.len()..).unwrap_or_default();
        self.beginning.extend_from_slice(fits);
        if rest.is_empty() {
            return;
        }
        if !self.truncated {
            self.truncated = true;
            self.whole = self.begin_whole();
        }
        if let Some(whole) = &mut self.whole {
            whole.push(rest);
        }
    }

    fn begin_whole(&self) -> Option<OutputWriter> {
        let mut whole = OutputWriter::new(self.store.clone()?);
        whole.push(&self.beginning);
        Some(whole)
    }

    /// Writes the buffered part of the stream to the disk.
    pub(super) async fn flush(&mut self) {
        if let Some(whole) = &mut self.whole {
            whole.flush().await;
        }
    }

    /// Ends the stream. A truncated stream is put into the store.
    pub(super) async fn finish(&mut self) {
        // Replaced bytes are longer than the original ones.
        if self.whole.is_none() && !self.truncated && self.shown().is_cut {
            self.whole = self.begin_whole();
        }
        if let Some(whole) = self.whole.take() {
            self.stored = Some(whole.finish().await);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.beginning.is_empty() && !self.truncated
    }

    /// Returns the key of the whole stream if it is in the store.
    pub(super) fn key(&self) -> Option<&str> {
        self.stored.as_ref()?.as_ref().ok().map(StoredOutput::key)
    }

    /// Returns the stream as text, truncated at a character boundary. Invalid UTF-8 becomes U+FFFD.
    pub(super) fn text(&self) -> String {
        let shown = self.shown();
        if !shown.is_cut {
            return shown.text;
        }
        let note = match &self.stored {
            None => String::new(),
            Some(Ok(stored)) => format!("\n{}", stored.note(shown.bytes as u64)),
            Some(Err(error)) => format!("\n[the rest is lost: {error}]"),
        };
        format!("{}{TRUNCATED}{note}", shown.text)
    }

    fn shown(&self) -> Shown {
        let mut bytes = self.beginning.as_slice();
        if self.truncated
            && let Err(error) = std::str::from_utf8(bytes)
            && error.error_len().is_none()
        {
            // The limit is inside of the last character.
            bytes = bytes.get(..error.valid_up_to()).unwrap_or(bytes);
        }
        let whole = String::from_utf8_lossy(bytes);
        // A replaced byte takes three bytes.
        let shown = text::head(&whole, self.max);
        let is_cut = self.truncated || shown.len() < whole.len();
        let is_plain = matches!(whole, std::borrow::Cow::Borrowed(_));
        Shown { text: shown.to_owned(), bytes: if is_plain { shown.len() } else { 0 }, is_cut }
    }
}

/// The most recent output of both streams, for live updates.
#[derive(Debug, Default)]
pub(super) struct Live {
    last: VecDeque<u8>,
    is_new: bool,
}

/// The maximum size of a live update, in bytes.
const LIVE_BYTES: usize = 16 * 1024;

impl Live {
    pub(super) fn push(&mut self, part: &[u8]) {
        self.last.extend(part);
        let over = self.last.len().saturating_sub(LIVE_BYTES);
        self.last.drain(..over);
        self.is_new |= !part.is_empty();
    }

    /// Returns the text of the next update, or `None` if there is no new output.
    pub(super) fn take_new(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_new).then(|| self.text())
    }

    /// Returns the text of the last output.
    pub(super) fn text(&mut self) -> String {
        let bytes: &[u8] = self.last.make_contiguous();
        // The rest of a character that the limit has split.
        let torn = bytes.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        String::from_utf8_lossy(bytes.get(torn..).unwrap_or_default()).into_owned()
    }

    /// Returns the number of bytes of the last output.
    pub(super) fn bytes(&self) -> usize {
        self.last.len()
    }
}
