//! Retains the end of a child's standard error.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::STDERR_TAIL_BYTES;
use super::error::StderrTail;
use crate::secrets::Secrets;

/// The size of one read.
const READ_BYTES: usize = 8 * 1024;

/// The last bytes. The rest is read and discarded, so that a server never blocks on its log.
#[derive(Debug, Clone)]
pub(super) struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    secrets: Arc<Secrets>,
}

impl Tail {
    pub(super) fn new(secrets: Secrets) -> Self {
        Self { bytes: Arc::default(), secrets: Arc::new(secrets) }
    }

    /// Reads the pipe to its end.
    pub(super) async fn follow(&self, mut pipe: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            // An error is treated as the end of the pipe.
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

    /// Returns the text without secrets, beginning with a whole line if there is one.
    pub(super) fn text(&self) -> StderrTail {
        let bytes: Vec<u8> = {
            let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            bytes.iter().copied().collect()
        };
        let was_cut = bytes.len() >= STDERR_TAIL_BYTES;
        // The first line may begin inside of a secret or a character, so it is omitted if there is a second line.
        let start = match bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if was_cut => end + 1,
            _ => 0,
        };
        let text = String::from_utf8_lossy(bytes.get(start..).unwrap_or_default());
        StderrTail::new(&self.secrets.redact(&text))
    }
}
