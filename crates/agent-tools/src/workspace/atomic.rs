//! Replacing a file so that no reader and no crash ever sees half of it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes `content` to `real`, making its parents. It goes to a new file in the same folder, is flushed to the disk
/// and then takes the old file's place in one step. Permissions and owner of the old file are kept.
///
/// # Errors
/// The operating system's. The old file is then untouched.
pub(crate) fn replace_file(real: &Path, content: &[u8]) -> io::Result<()> {
    let folder = real.parent().ok_or_else(|| io::Error::other("the path has no folder"))?;
    fs::create_dir_all(folder)?;
    let old = existing(real)?;

    let mut builder = tempfile::Builder::new();
    builder.prefix(".looptree-").suffix(".tmp");
    #[cfg(unix)]
    let widest = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    // The process's umask narrows this, as for any new file.
    #[cfg(unix)]
    builder.permissions(widest);
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(content)?;
    if let Some(old) = &old {
        keep_owner(file.as_file(), old);
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(real).map_err(|error| error.error)?;
    sync_folder(folder);
    Ok(())
}

/// What is at `real`, if it is a file that may be written. A rename would replace a read-only file without asking.
fn existing(real: &Path) -> io::Result<Option<Metadata>> {
    let meta = match fs::metadata(real) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if meta.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if !meta.is_file() {
        return Err(io::Error::other("it is not a regular file (a device, pipe or socket)"));
    }
    OpenOptions::new().write(true).open(real)?;
    Ok(Some(meta))
}

/// Only a privileged process can give a file away; for the others owner and group are mostly theirs already.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::MetadataExt as _;
    drop(std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid())));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// Makes the rename itself last. Some file systems cannot do it for a folder; the content is safe without it.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        drop(folder.sync_all());
    }
}
