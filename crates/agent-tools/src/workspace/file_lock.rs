//! Serializes changes to the same file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The files that are being changed, by real path, so that two names of one file count as one.
///
/// There is one for the process: tools of two agents may work on the same file.
static FILES: Mutex<BTreeMap<PathBuf, Weak<AsyncMutex<()>>>> = Mutex::new(BTreeMap::new());

/// The exclusive right to change one file. Other tasks wait until it is dropped.
#[derive(Debug)]
pub(crate) struct FileLock {
    _guard: OwnedMutexGuard<()>,
}

impl FileLock {
    /// Waits for the right to change a file, in the order of the calls.
    pub(crate) async fn enter(real: &Path) -> Self {
        Self { _guard: lock_of(real).lock_owned().await }
    }
}

fn lock_of(real: &Path) -> Arc<AsyncMutex<()>> {
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lock) = files.get(real).and_then(Weak::upgrade) {
        return lock;
    }
    // Locks that no task holds or awaits are removed, so the map stays small.
    files.retain(|_, lock| lock.strong_count() > 0);
    let lock = Arc::new(AsyncMutex::new(()));
    files.insert(real.to_path_buf(), Arc::downgrade(&lock));
    lock
}
