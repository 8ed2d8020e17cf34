//! Opens a path only if it is a regular file.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::PathError;

/// Opens `real` for reading if it is a regular file: opening a named pipe would wait for a writer for ever, and reading
/// a device may never end. The check is done before and after the open.
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
        // The open does not block if the file became a pipe since the check.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(real).map_err(access)?;
    let len = check(&file.metadata().map_err(access)?)?;
    Ok((file, len))
}
