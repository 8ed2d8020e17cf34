//! Extended attributes of a file that is replaced.

use std::fs::File;

/// The maximum size of the list of names, and of one value: 64 KiB, which is the limit of Linux.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const MAX_BYTES: usize = 64 * 1024;

/// Attributes that refer to the old content: rights that the content had, and signatures and digests of it.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const OF_CONTENT: [&[u8]; 3] = [b"security.capability", b"security.ima", b"security.evm"];

/// Copies the attributes, access control lists included. An attribute that cannot be copied is left out.
#[cfg(any(target_os = "linux", target_os = "macos"))]
pub(super) fn copy(from: &File, to: &File) {
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};

    let mut names = vec![0; MAX_BYTES];
    let Ok(length) = flistxattr(from, &mut *names) else { return };
    let names = names.get(..length).unwrap_or_default();
    let mut value = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if OF_CONTENT.contains(&name) {
            continue;
        }
        value.resize(MAX_BYTES, 0);
        if let Ok(length) = fgetxattr(from, name, &mut *value) {
            let value = value.get(..length).unwrap_or_default();
            let _ = fsetxattr(to, name, value, XattrFlags::empty());
        }
    }
}

/// This system has no extended attributes, or no common way to copy them.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(super) fn copy(_: &File, _: &File) {}
