//! Opening a file that is surely a file.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::PathError;

/// Opens `real` for reading, but only a regular file: opening a named pipe would wait for a writer for ever, and a
/// device may never end. Checked before the open and again on what was opened.
pub(crate) fn open_regular(real: &Path, named: &str) -> Result<(File, u64), PathError> {
    let access = |source| PathError::access(named, source);
    let check = |meta: &std::fs::Metadata| {
        if meta.is_dir() {
            Err(PathError::IsADirectory { path: named.to_owned() })
        } else if meta.is_file() {
            Ok(meta.len())
        } else {
            Err(PathError::NotRegular { path: named.to_owned() })
        }
    };
    check(&std::fs::metadata(real).map_err(access)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Should the file have become a pipe since the check, the open returns all the same.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(real).map_err(access)?;
    let len = check(&file.metadata().map_err(access)?)?;
    Ok((file, len))
}
