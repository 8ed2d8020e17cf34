//! The output of a command, kept with bounds while it comes in.

use std::collections::VecDeque;

use crate::output_store::{OutputStore, OutputStoreError, OutputWriter, StoredOutput};
use crate::text;

/// What is said where output was thrown away (REQ-096).
pub(super) const TRUNCATED: &str = "\n... (output truncated)";

/// The beginning of one stream. The whole of a long one goes to a store, where there is one.
#[derive(Debug)]
pub(super) struct Capture {
    kept: Vec<u8>,
    max: usize,
    truncated: bool,
    store: Option<OutputStore>,
    whole: Option<OutputWriter>,
    /// What became of the whole.
    stored: Option<Result<StoredOutput, OutputStoreError>>,
}

/// The part of a stream that is shown.
struct Shown {
    text: String,
    /// How many bytes of the stream that is; 0 where bytes were replaced and cannot be counted.
    bytes: usize,
    is_cut: bool,
}

impl Capture {
    pub(super) fn new(max: usize, store: Option<OutputStore>) -> Self {
        Self { kept: Vec::new(), max, truncated: false, store, whole: None, stored: None }
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let room = self.max - self.kept.len();
        let kept = part.get(..room).unwrap_or(part);
        let rest = part.get(kept.len()..).unwrap_or_default();
        self.kept.extend_from_slice(kept);
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
        whole.push(&self.kept);
        Some(whole)
    }

    /// Hands on to the disk what has gathered.
    pub(super) async fn flush(&mut self) {
        if let Some(whole) = &mut self.whole {
            whole.flush().await;
        }
    }

    /// The stream has ended: what is cut is put into the store.
    pub(super) async fn finish(&mut self) {
        // Replaced bytes take more room than the stream had.
        if self.whole.is_none() && !self.truncated && self.shown().is_cut {
            self.whole = self.begin_whole();
        }
        if let Some(whole) = self.whole.take() {
            self.stored = Some(whole.finish().await);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && !self.truncated
    }

    /// The key of the whole, where it is kept.
    pub(super) fn key(&self) -> Option<&str> {
        self.stored.as_ref()?.as_ref().ok().map(StoredOutput::key)
    }

    /// The stream as text, cut between two characters. Bytes that are no UTF-8 become U+FFFD.
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
        let is_cut = self.truncated || shown.len() < whole.len();
        let is_plain = matches!(whole, std::borrow::Cow::Borrowed(_));
        Shown { text: shown.to_owned(), bytes: if is_plain { shown.len() } else { 0 }, is_cut }
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
