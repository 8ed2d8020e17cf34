//! An output that can be read while it is produced.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::page::{self, OutputPage};
use super::writer::Work;
use super::{OutputStore, OutputStoreError, StoredOutput, key_of};
use crate::blocking::to_completion;

/// The writer of an output that is in the store from its beginning. Dropping it ends the output, which can still be read.
#[derive(Debug)]
pub(crate) struct LiveOutput {
    number: u64,
    store: OutputStore,
    growing: Arc<Growing>,
}

/// The part of a live output that its writer and its readers share.
#[derive(Debug)]
pub(super) struct Growing {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None` after the end.
    work: Option<Work>,
    produced: u64,
}

impl LiveOutput {
    /// Begins an output of which the first `max` bytes are kept, and no more than the store keeps of any output.
    pub(crate) fn begin(store: &OutputStore, max: u64) -> Self {
        let work = Work::new(store.clone(), max);
        let growing = Arc::new(Growing { inner: Mutex::new(Inner { work: Some(work), produced: 0 }) });
        let number = {
            let mut shelf = store.shelf();
            shelf.last += 1;
            let number = shelf.last;
            shelf.growing.insert(number, Arc::clone(&growing));
            number
        };
        Self { number, store: store.clone(), growing }
    }

    /// Returns the key for `read_output`.
    pub(crate) fn key(&self) -> String {
        key_of(self.number)
    }

    /// Returns the number of bytes that were produced so far.
    pub(crate) fn produced(&self) -> u64 {
        self.growing.inner().produced
    }

    /// Appends the next part. Call [`flush`](Self::flush) regularly.
    pub(crate) fn push(&self, part: &[u8]) {
        let mut inner = self.growing.inner();
        inner.produced += part.len() as u64;
        if let Some(work) = &mut inner.work {
            work.push(part);
        }
    }

    /// Writes a full buffer to the disk on a blocking thread.
    pub(crate) async fn flush(&self) {
        let is_due = self.growing.inner().work.as_ref().is_some_and(Work::is_due);
        if is_due {
            let growing = Arc::clone(&self.growing);
            // An error means that there is no runtime. The bytes stay in the buffer.
            let _ = to_completion(move || {
                if let Some(work) = &mut growing.inner().work {
                    work.write();
                }
            })
            .await;
        }
    }
}

impl Drop for LiveOutput {
    fn drop(&mut self) {
        // Locked until the whole output is in its place, so that a reader finds one or the other.
        let mut inner = self.growing.inner();
        let produced = inner.produced;
        // At most one buffer is written to the disk here. If it fails, the output is shorter.
        let stored = inner.work.take().map(|work| work.into_stored(produced));
        self.store.end_growing(self.number, stored.and_then(Result::ok));
    }
}

impl Growing {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a part. Blocks if a part of the output is on disk. `None` if the output has ended meanwhile.
    pub(super) fn read(
        &self,
        number: u64,
        offset: i64,
        limit: usize,
    ) -> Option<Result<OutputPage, OutputStoreError>> {
        let mut inner = self.inner();
        let produced = inner.produced;
        let work = inner.work.as_mut()?;
        let output = StoredOutput { key: key_of(number), kept: work.reserved(), produced, growing: true };
        Some(page::read(output, offset, limit, |from, len| work.bytes_at(from, len)))
    }
}

/// Returns a part of bytes in memory.
pub(super) fn slice(bytes: &[u8], from: u64, len: usize) -> io::Result<Vec<u8>> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let rest = bytes.get(from..).unwrap_or_default();
    Ok(rest.get(..len).unwrap_or(rest).to_vec())
}
