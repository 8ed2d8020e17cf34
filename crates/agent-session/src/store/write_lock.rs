//! One writer for each session.
//!
//! It is a lock of the operating system and ends with the process. The file is removed when it is unlocked. On Windows,
//! where this is not safe, the empty file remains.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    file: File,
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
                return Ok(Self { path, file });
            }
        }
        Err(SessionError::Locked { lock: path.display().to_string() })
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
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
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
