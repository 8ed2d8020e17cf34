//! Replaces files atomically, so that no reader and no crash sees a partial file.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Writes `content` to `real` and creates missing folders. The content is written to a new file in the same folder and
/// flushed to the disk, and the new file is then renamed. It gets the permissions and the owner of the old file.
///
/// # Errors
/// Returns the error of the operating system. The old file is then unchanged.
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

/// Returns the metadata of `real` if it is a writable file. A rename would replace a read-only file as well.
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

/// Only a privileged process can change the owner; for others, owner and group are usually right already.
#[cfg(unix)]
fn keep_owner(file: &File, old: &Metadata) {
    use std::os::unix::fs::MetadataExt as _;
    drop(std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid())));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// Makes the rename durable. Some file systems do not support this for folders; the content is durable without it.
fn sync_folder(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        drop(folder.sync_all());
    }
}
