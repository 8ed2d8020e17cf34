//! Reads files with a size limit and replaces them atomically.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::error::SessionError;

/// A counter for the names of temporary files.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Opens a file of at most `limit` bytes, and returns its size; `None` when it does not exist.
pub(crate) fn open(path: &Path, limit: u64) -> Result<Option<(File, usize)>, SessionError> {
    let file = match open_now(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(SessionError::io(path, "opened")(error)),
    };
    let metadata = file.metadata().map_err(SessionError::io(path, "looked at"))?;
    if !metadata.is_file() {
        return Err(SessionError::corrupt(path, "its kind", "this is not a regular file"));
    }
    if metadata.len() > limit {
        return Err(SessionError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(Some((file, usize::try_from(metadata.len()).unwrap_or_default())))
}

/// Reads a file of at most `limit` bytes; `None` when it does not exist.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, SessionError> {
    let Some((file, size)) = open(path, limit)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(size);
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(SessionError::io(path, "read"))?;
    if bytes.len() as u64 > limit {
        return Err(SessionError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(Some(bytes))
}

/// Reads a file as [`read`] does. A file that does not exist is an error.
pub(crate) fn read_existing(path: &Path, limit: u64) -> Result<Vec<u8>, SessionError> {
    read(path, limit)?.ok_or_else(|| SessionError::NotFound {
        id: path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default(),
        store: path.parent().map(|dir| dir.display().to_string()).unwrap_or_default(),
    })
}

/// Replaces the content of the file by `value` as indented JSON; `what` names it in errors.
pub(crate) fn replace_json(
    path: &Path,
    what: &'static str,
    value: &impl Serialize,
) -> Result<(), SessionError> {
    let encode = |source| SessionError::Encode { what, source };
    let mut text = serde_json::to_vec_pretty(value).map_err(encode)?;
    text.push(b'\n');
    replace(path, &text)
}

/// Replaces the content of a file atomically: a reader sees the old or the new content, also after a crash.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SessionError> {
    replace_by(path, |file| file.write_all(bytes).map_err(SessionError::io(path, "written")))
}

/// Replaces the content of a file atomically by what `write` writes, and returns its result.
pub(crate) fn replace_by<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let beside = temporary(path);
    let written = create_new(&beside)
        .and_then(|mut file| {
            let written = write(&mut file)?;
            file.sync_all().map_err(SessionError::io(&beside, "flushed to the disk"))?;
            Ok(written)
        })
        .and_then(|written| {
            std::fs::rename(&beside, path).map_err(SessionError::io(path, "replaced"))?;
            Ok(written)
        });
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
        return written;
    }
    flush_directory(path);
    written
}

/// Returns a new name beside a file.
pub(crate) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".tmp.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// Creates a file with this content at once: a reader sees no file or all of it. Returns the file, open for writing.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<File, SessionError> {
    let beside = temporary(path);
    let created = create_new(&beside).and_then(|mut file| {
        file.write_all(bytes).map_err(SessionError::io(&beside, "written"))?;
        std::fs::rename(&beside, path).map_err(SessionError::io(path, "created"))?;
        Ok(file)
    });
    if created.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    created
}

/// Creates a file that does not exist, for its owner only.
pub(crate) fn create_new(path: &Path) -> Result<File, SessionError> {
    let mut options = File::options();
    options.write(true).create_new(true);
    owner_only(&mut options);
    options.open(path).map_err(SessionError::io(path, "written"))
}

/// Opens a file for reading. A pipe or a terminal at the path does not block: the user can name any file, and a folder of
/// sessions can be part of a repository.
pub(crate) fn open_now(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
        options.custom_flags(i32::try_from(flags).unwrap_or_default());
    }
    options.open(path)
}

/// Restricts new files to their owner, because they contain conversations.
#[cfg(unix)]
pub(crate) fn owner_only(options: &mut std::fs::OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
pub(crate) fn owner_only(_: &mut std::fs::OpenOptions) {}

/// Creates a directory and those above it, for their owner only, because they contain conversations. Directories that
/// exist are not changed.
pub(crate) fn create_private(dir: &Path) -> Result<(), SessionError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).map_err(SessionError::io(dir, "made"))
}

/// Flushes the directory of a file, so that a new name survives a crash of the machine. Does nothing on systems that
/// cannot flush directories.
pub(crate) fn flush_directory(path: &Path) {
    if let Some(dir) = path.parent()
        && let Ok(dir) = File::open(dir)
    {
        let _ = dir.sync_all();
    }
}

/// Removes a file if it is empty. Form 1 emptied a journal with a save, and beside a file of form 2 an empty one is damage.
pub(crate) fn remove_empty(path: &Path) -> Result<(), SessionError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.len() == 0 => remove(path),
        _ => Ok(()),
    }
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), SessionError> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(SessionError::io(path, "removed")(error)),
    }
}
