//! One writer for each session.
//!
//! It is a lock of the operating system and ends with the process. The file is removed when it is unlocked. On Windows,
//! where this is not safe, the empty file remains.
//!
//! The writer can replace the file by another one, which it has locked before. A process that opened the former file detects
//! this after locking it, and opens the new one.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[cfg(unix)]
use super::files;
use crate::error::SessionError;

/// The number of attempts to lock a file that disappears between opening and locking.
const TRIES: usize = 16;

/// The number of attempts to take a lock that is held. A reader that checks for a writer holds it for a moment.
const TRIES_WHILE_HELD: usize = 4;

/// The wait between these attempts.
const WAIT: Duration = Duration::from_millis(3);

/// The right to write one session.
#[derive(Debug)]
pub(crate) struct WriteLock {
    path: PathBuf,
    file: Arc<File>,
}

impl WriteLock {
    pub(crate) fn take(path: PathBuf) -> Result<Self, SessionError> {
        for attempt in 1..=TRIES {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(SessionError::io(&path, "opened"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if attempt < TRIES_WHILE_HELD => {
                    std::thread::sleep(WAIT);
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(SessionError::Locked { lock: path.display().to_string() });
                }
                Err(TryLockError::Error(source)) => {
                    return Err(SessionError::Io { path, action: "locked", source });
                }
            }
            if is_still_at(&file, &path) {
                return Ok(Self { path, file: Arc::new(file) });
            }
        }
        Err(SessionError::Locked { lock: path.display().to_string() })
    }

    /// Replaces the file of the lock by a new file with this content, and returns it. The session is locked all the time.
    #[cfg(unix)]
    pub(crate) fn replace_file(&mut self, bytes: &[u8]) -> Result<Arc<File>, SessionError> {
        use std::io::Write as _;
        let beside = files::temporary(&self.path);
        let replaced = files::create_new(&beside).and_then(|mut file| {
            // No other process knows the file yet.
            file.lock().map_err(SessionError::io(&beside, "locked"))?;
            file.write_all(bytes).map_err(SessionError::io(&beside, "written"))?;
            std::fs::rename(&beside, &self.path).map_err(SessionError::io(&self.path, "replaced"))?;
            Ok(file)
        });
        match replaced {
            Ok(file) => {
                // The former file is closed, which ends its lock.
                self.file = Arc::new(file);
                Ok(Arc::clone(&self.file))
            }
            Err(error) => {
                let _ = std::fs::remove_file(&beside);
                Err(error)
            }
        }
    }

    #[cfg(unix)]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        if cfg!(unix) {
            // Removed while locked: a process that waits for this file detects the removal and opens a new one.
            let _ = std::fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Returns whether a writer in this or another process holds the lock.
pub(crate) fn is_held(path: &Path) -> bool {
    for _ in 0..TRIES {
        let Ok(file) = super::files::open_now(path) else { return false };
        if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
            return true;
        }
        if is_still_at(&file, path) {
            return false;
        }
        // Its writer has replaced or removed it in between.
    }
    false
}

/// Returns whether the path still refers to this file. Another process that unlocked it can have removed it.
#[cfg(unix)]
fn is_still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_still_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests;
