//! Stores large outputs completely, so that the model can read the parts that a result omits.
//!
//! A tool returns the beginning of a large output and a key; the tool [`read_output`](crate::read_output) returns any
//! part of it. Large outputs are stored in a private folder for temporary files (0700, files 0600), small ones in
//! memory. The oldest outputs are removed to make room for new ones, and all are removed when the last clone of the
//! store is dropped. A model with the tool can read all outputs of the store, so give each user a separate store.
//!
//! ```
//! use agent_tools::OutputStore;
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let store = OutputStore::new();
//! let stored = store.keep("line\n".repeat(1000)).await?;
//! let page = store.read(stored.key(), 4990, 100).await?;
//! assert_eq!((page.text(), page.end()), ("line\nline\n", 5000));
//! # Ok::<(), agent_tools::output_store::OutputStoreError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod live;
mod offload;
mod page;
mod stored;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use error::OutputStoreError;
pub use offload::OffloadingTool;
pub use page::OutputPage;

pub(crate) use live::LiveOutput;
pub(crate) use writer::OutputWriter;

use crate::blocking::to_completion;
use crate::dir::Dir;
use live::Growing;
use stored::{Place, Stored};

/// The maximum size of one stored output: its first 64 MiB.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// The maximum total size of a store: 512 MiB.
pub const MAX_TOTAL_BYTES: u64 = 512 * 1024 * 1024;

/// The maximum number of outputs in a store.
pub const MAX_OUTPUTS: usize = 1000;

/// An output of at most this many bytes is stored in memory: 16 KiB. With [`MAX_OUTPUTS`] that makes 16 MB at most.
pub const MEMORY_BYTES: usize = 16 * 1024;

/// A store of tool outputs with limits on memory and disk. Clones share the store.
#[derive(Clone)]
pub struct OutputStore {
    bounds: Bounds,
    shelf: Arc<Mutex<Shelf>>,
}

#[derive(Debug, Clone, Copy)]
struct Bounds {
    output: u64,
    total: u64,
}

/// The stored outputs, by number. Numbers increase, so the first is the oldest.
#[derive(Debug, Default)]
struct Shelf {
    last: u64,
    outputs: BTreeMap<u64, Arc<Stored>>,
    /// The outputs that are still produced. They are never removed to make room.
    growing: BTreeMap<u64, Arc<Growing>>,
    /// The total size of finished and unfinished outputs.
    bytes: u64,
    folder: Option<Arc<Folder>>,
}

/// The private folder. Files are opened relative to its descriptor. Dropping it removes the folder.
#[derive(Debug)]
struct Folder {
    dir: Dir,
    temporary: tempfile::TempDir,
}

/// An output in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOutput {
    key: String,
    kept: u64,
    produced: u64,
    growing: bool,
}

impl StoredOutput {
    /// Returns the key for `read_output`, for example `out-1`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the number of bytes that can be read.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.kept
    }

    /// Returns the number of bytes that were produced, which is more than can be read if a limit was reached.
    #[must_use]
    pub fn produced_bytes(&self) -> u64 {
        self.produced
    }

    /// Returns whether the output is still being produced, so that it can be longer at the next call.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.growing
    }

    /// Returns a note for the model that explains how to read on after the first `shown` bytes.
    #[must_use]
    pub fn note(&self, shown: u64) -> String {
        let Self { key, kept, produced, .. } = self;
        let all = if kept < produced {
            format!("of {produced} bytes the first {kept} are kept, the rest is lost")
        } else {
            format!("all {produced} bytes are kept")
        };
        format!("[{all}: call read_output with key \"{key}\" and offset {shown} to read on]")
    }
}

impl OutputStore {
    /// Creates an empty store. It does not access the disk before a large output is stored.
    #[must_use]
    pub fn new() -> Self {
        let bounds = Bounds { output: MAX_OUTPUT_BYTES, total: MAX_TOTAL_BYTES };
        Self { bounds, shelf: Arc::default() }
    }

    /// Returns an empty store with this maximum size of one output. The default is [`MAX_OUTPUT_BYTES`].
    #[must_use]
    pub fn with_max_output_bytes(self, bytes: u64) -> Self {
        Self { bounds: Bounds { output: bytes, ..self.bounds }, shelf: Arc::default() }
    }

    /// Returns an empty store with this maximum total size. The default is [`MAX_TOTAL_BYTES`].
    #[must_use]
    pub fn with_max_total_bytes(self, bytes: u64) -> Self {
        Self { bounds: Bounds { total: bytes, ..self.bounds }, shelf: Arc::default() }
    }

    /// Stores this output, or its beginning if it exceeds the limit. Outputs that are written to the disk need a tokio
    /// runtime.
    ///
    /// # Errors
    /// Returns an error if writing to the disk fails.
    pub async fn keep(&self, output: impl Into<Vec<u8>>) -> Result<StoredOutput, OutputStoreError> {
        let mut writer = OutputWriter::new(self.clone());
        writer.push(&output.into());
        writer.finish().await
    }

    /// Returns up to `limit` bytes from `offset`, cut at character boundaries. A negative offset counts from the end.
    ///
    /// # Errors
    /// Returns an error if the output does not exist any more, is shorter, or cannot be read.
    pub async fn read(&self, key: &str, offset: i64, limit: usize) -> Result<OutputPage, OutputStoreError> {
        if let Some(page) = self.read_growing(key, offset, limit).await {
            return page;
        }
        let (number, kept) = self.find(key)?;
        let stored = kept.stored(number);
        let is_in_memory = matches!(kept.place(), Place::Memory(_));
        let read = move || page::read(stored, offset, limit, |from, len| page::bytes_at(&kept, from, len));
        let read = match is_in_memory {
            true => read(),
            false => to_completion(read).await.map_err(|_| OutputStoreError::no_runtime())?,
        };
        match read {
            // The output was removed in the meantime, to make room for a newer one.
            Err(OutputStoreError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.unknown(key))
            }
            read => read,
        }
    }

    /// Reads from an output that is still produced. `None` if there is none with this key.
    async fn read_growing(
        &self,
        key: &str,
        offset: i64,
        limit: usize,
    ) -> Option<Result<OutputPage, OutputStoreError>> {
        let number = number_of(key)?;
        let growing = self.shelf().growing.get(&number).cloned()?;
        match to_completion(move || growing.read(number, offset, limit)).await {
            Ok(page) => page,
            Err(_) => Some(Err(OutputStoreError::no_runtime())),
        }
    }

    /// Replaces an output that was produced until now by the whole output.
    fn end_growing(&self, number: u64, stored: Option<Stored>) {
        let oldest = {
            let mut shelf = self.shelf();
            shelf.growing.remove(&number);
            stored.and_then(|stored| shelf.insert(number, stored))
        };
        drop(oldest);
    }

    fn find(&self, key: &str) -> Result<(u64, Arc<Stored>), OutputStoreError> {
        let number = number_of(key);
        let found = number.and_then(|number| Some((number, self.shelf().outputs.get(&number).cloned()?)));
        found.ok_or_else(|| self.unknown(key))
    }

    fn unknown(&self, key: &str) -> OutputStoreError {
        /// The maximum number of keys in an error text.
        const NAMED: usize = 5;
        let shelf = self.shelf();
        let keys: std::collections::BTreeSet<u64> =
            shelf.outputs.keys().chain(shelf.growing.keys()).copied().collect();
        let newest = keys.into_iter().rev().take(NAMED).map(key_of).collect();
        let shown = crate::text::head(key, 64).escape_debug().to_string();
        OutputStoreError::Unknown { key: shown, newest }
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves room for this number of bytes and removes the oldest outputs if necessary. Returns the number of
    /// reserved bytes.
    fn reserve(&self, bytes: u64) -> u64 {
        let mut dropped = Vec::new();
        let room = {
            let mut shelf = self.shelf();
            while shelf.bytes.saturating_add(bytes) > self.bounds.total {
                let Some((_, oldest)) = shelf.outputs.pop_first() else { break };
                shelf.bytes = shelf.bytes.saturating_sub(oldest.bytes());
                dropped.push(oldest);
            }
            let room = self.bounds.total.saturating_sub(shelf.bytes).min(bytes);
            shelf.bytes += room;
            room
        };
        // Outside of the lock, because dropping the last reference removes the file.
        drop(dropped);
        room
    }

    fn give_back(&self, bytes: u64) {
        let mut shelf = self.shelf();
        shelf.bytes = shelf.bytes.saturating_sub(bytes);
    }

    fn add(&self, kept: Stored) -> StoredOutput {
        let mut shelf = self.shelf();
        shelf.last += 1;
        let number = shelf.last;
        let stored = kept.stored(number);
        let dropped = shelf.insert(number, kept);
        drop(shelf);
        drop(dropped);
        stored
    }

    /// Returns the private folder, which is created on first use.
    fn folder(&self) -> io::Result<Arc<Folder>> {
        let mut shelf = self.shelf();
        if let Some(folder) = &shelf.folder {
            return Ok(Arc::clone(folder));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix("looptree-outputs-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(std::fs::Permissions::from_mode(0o700));
        }
        let temporary = builder.tempdir()?;
        let folder = Arc::new(Folder { dir: Dir::open(temporary.path())?, temporary });
        shelf.folder = Some(Arc::clone(&folder));
        Ok(folder)
    }

    /// Returns the folder of the outputs on disk, or `None` if there is none yet.
    #[must_use]
    pub fn folder_path(&self) -> Option<PathBuf> {
        self.shelf().folder.as_ref().map(|folder| folder.temporary.path().to_path_buf())
    }
}

impl Shelf {
    /// Adds an output. Returns the oldest one if it had to make room; drop it outside of the lock.
    fn insert(&mut self, number: u64, stored: Stored) -> Option<Arc<Stored>> {
        self.outputs.insert(number, Arc::new(stored));
        let (_, oldest) = (self.outputs.len() > MAX_OUTPUTS).then(|| self.outputs.pop_first()).flatten()?;
        self.bytes = self.bytes.saturating_sub(oldest.bytes());
        Some(oldest)
    }
}

fn number_of(key: &str) -> Option<u64> {
    key.trim().strip_prefix("out-").and_then(|number| number.parse().ok())
}

fn key_of(number: u64) -> String {
    format!("out-{number}")
}

impl Default for OutputStore {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the number and the size of outputs, and nothing of their content.
impl fmt::Debug for OutputStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outputs, bytes) = {
            let shelf = self.shelf();
            (shelf.outputs.len(), shelf.bytes)
        };
        f.debug_struct("OutputStore")
            .field("bounds", &self.bounds)
            .field("outputs", &outputs)
            .field("bytes", &bytes)
            .finish()
    }
}
