//! The end of what a child writes to its standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::STDERR_TAIL_BYTES;
use super::error::StderrTail;
use crate::secrets::Secrets;

/// The size of one read.
const READ_BYTES: usize = 8 * 1024;

/// The last bytes; the rest is read and thrown away, so that no server ever waits for its log to be read.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    secrets: Arc<Secrets>,
}

impl Tail {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self { bytes: Arc::default(), secrets: Arc::new(secrets) }
    }

    /// Reads to the end.
    pub(super) async fn follow(&self, mut pipe: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            // An error ends a pipe as its end does.
            let read = pipe.read(&mut buffer).await.unwrap_or_default();
            let part = buffer.get(..read).unwrap_or_default();
            if part.is_empty() {
                return;
            }
            self.push(part);
        }
    }

    pub(super) fn push(&self, part: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(part);
        let over = bytes.len().saturating_sub(STDERR_TAIL_BYTES);
        bytes.drain(..over);
    }

    /// The text: whole lines where a line fits, without secrets.
    pub(super) fn text(&self) -> StderrTail {
        let bytes: Vec<u8> = {
            let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.iter().copied().collect()
        };
        let was_cut = bytes.len() >= STDERR_TAIL_BYTES;
        // The cut may have gone through a secret or a character, so the first line is not shown when there is a second.
        let start = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if was_cut => end + 1,
            _ => 0,
        };
        let text = String::from_utf8_lossy(bytes.get(start..).unwrap_or_default());
        StderrTail::new(&self.secrets.redact(&text))
    }
}
