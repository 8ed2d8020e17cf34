//! Writes an output to the store.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::live::slice;
use super::page::bytes_of_file;
use super::stored::{Place, Stored};
use super::{Folder, MEMORY_BYTES, OutputStore, OutputStoreError, StoredOutput};
use crate::blocking::to_completion;
use crate::dir::{Dir, Identity, NewFile};

/// The size of the write buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// An output that is stored while it is produced. Dropping it discards the output.
#[derive(Debug)]
pub(crate) struct OutputWriter {
    /// `None` while a thread writes.
    work: Option<Work>,
    produced: u64,
}

#[derive(Debug)]
pub(super) struct Work {
    store: OutputStore,
    /// The maximum size of the output.
    max: u64,
    buffer: Vec<u8>,
    file: Option<OpenFile>,
    /// The number of bytes reserved in the store, for the file and the buffer.
    reserved: u64,
    state: State,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    name: PathBuf,
    identity: Identity,
    folder: Arc<Folder>,
    bytes: u64,
}

/// Whether further parts are stored.
#[derive(Debug)]
enum State {
    Open,
    /// A limit was reached.
    Full,
    /// Writing to the disk failed.
    Failed(io::Error),
}

impl OutputWriter {
    pub(crate) fn new(store: OutputStore) -> Self {
        Self { work: Some(Work::new(store, u64::MAX)), produced: 0 }
    }

    /// Appends the next part. Call [`flush`](Self::flush) regularly.
    pub(crate) fn push(&mut self, part: &[u8]) {
        self.produced += part.len() as u64;
        if let Some(work) = &mut self.work {
            work.push(part);
        }
    }

    /// Writes a full buffer to the disk on a blocking thread.
    pub(crate) async fn flush(&mut self) {
        if self.work.as_ref().is_some_and(Work::is_due)
            && let Some(mut work) = self.work.take()
        {
            let done = to_completion(move || {
                work.write();
                work
            });
            self.work = done.await.ok();
        }
    }

    /// Ends the output and adds it to the store.
    pub(crate) async fn finish(mut self) -> Result<StoredOutput, OutputStoreError> {
        let produced = self.produced;
        let work = self.work.take().ok_or_else(OutputStoreError::no_runtime)?;
        if work.file.is_none() && work.buffer.len() <= MEMORY_BYTES {
            return work.finish(produced);
        }
        to_completion(move || work.finish(produced)).await.map_err(|_| OutputStoreError::no_runtime())?
    }
}

impl Work {
    pub(super) fn new(store: OutputStore, max: u64) -> Self {
        let max = max.min(store.bounds.output);
        Self { store, max, buffer: Vec::new(), file: None, reserved: 0, state: State::Open }
    }

    /// Returns whether the buffer is full and can be written.
    pub(super) fn is_due(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES && matches!(self.state, State::Open)
    }

    /// Returns the number of bytes that are kept so far.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reads bytes of the file and the buffer. The buffer is first written to the file, if there is one.
    pub(super) fn bytes_at(&mut self, from: u64, len: usize) -> io::Result<Vec<u8>> {
        if self.file.is_some() && !self.buffer.is_empty() {
            self.write();
        }
        match &self.file {
            None => slice(&self.buffer, from, len),
            Some(open) => bytes_of_file(&open.folder, &open.name, open.identity, from, len),
        }
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        if !matches!(self.state, State::Open) {
            return;
        }
        let wanted = part.len() as u64;
        let allowed = self.max.saturating_sub(self.reserved).min(wanted);
        let room = self.store.reserve(allowed);
        self.reserved += room;
        // This is at most the length of the part, which is in memory.
        let taken = part.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(part);
        self.buffer.extend_from_slice(taken);
        if room < wanted {
            self.state = State::Full;
        }
    }

    pub(super) fn write(&mut self) {
        if let Err(error) = self.try_write() {
            self.state = State::Failed(error);
        }
        self.buffer.clear();
    }

    fn try_write(&mut self) -> io::Result<()> {
        let open = match &mut self.file {
            Some(open) => open,
            None => self.file.insert(OpenFile::new(&self.store)?),
        };
        open.file.write_all(&self.buffer)?;
        open.bytes += self.buffer.len() as u64;
        Ok(())
    }

    fn finish(self, produced: u64) -> Result<StoredOutput, OutputStoreError> {
        let store = self.store.clone();
        Ok(store.add(self.into_stored(produced)?))
    }

    /// Ends the output.
    pub(super) fn into_stored(mut self, produced: u64) -> Result<Stored, OutputStoreError> {
        let is_small = self.file.is_none() && self.buffer.len() <= MEMORY_BYTES;
        if !is_small && !self.buffer.is_empty() {
            self.write();
        }
        let place = match self.file.take() {
            Some(OpenFile { name, identity, folder, bytes, .. }) => {
                Place::File { name, identity, bytes, folder }
            }
            None => Place::Memory(std::mem::take(&mut self.buffer)),
        };
        let kept = Stored::new(place, produced);
        if let State::Failed(error) = std::mem::replace(&mut self.state, State::Full)
            && kept.bytes() == 0
        {
            return Err(OutputStoreError::Disk(error));
        }
        // Releases the room of bytes that were not written.
        self.store.give_back(self.reserved.saturating_sub(kept.bytes()));
        self.reserved = 0;
        Ok(kept)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.store.give_back(self.reserved);
        if let Some(open) = &self.file {
            drop(open.folder.dir.remove_file(&open.name));
        }
    }
}

impl OpenFile {
    fn new(store: &OutputStore) -> io::Result<Self> {
        let folder = store.folder()?;
        // Created for this account only (0600) and under an unpredictable name.
        let make = |dir: &Dir, path: &Path| dir.create_file(path, NewFile::Private);
        let (file, name) = folder.dir.with_new_name(Path::new(""), "out-", make)?;
        let identity = folder.dir.facts(&name)?.identity;
        Ok(Self { file, name, identity, folder, bytes: 0 })
    }
}
