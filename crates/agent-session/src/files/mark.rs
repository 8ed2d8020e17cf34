//! The state of a file: its length, time and hash.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// The maximum size of a file that is hashed, in bytes: 16 MiB. Larger files are compared by length and time.
pub const MAX_HASHED_BYTES: u64 = 16 << 20;

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileMark {
    /// The length in bytes.
    pub len: u64,
    /// The time of the last write in milliseconds since 1970-01-01 UTC; 0 if the system does not report it.
    pub modified_ms: u64,
    /// The 64-bit FNV-1a hash of the content as 16 hexadecimal digits; absent for a large file. It detects accidental
    /// changes, not forged ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Returns the current state of a file; `None` when it does not exist. The content is not read if length and time equal
/// those of `known`.
pub(super) fn look(path: &Path, known: Option<&FileMark>) -> Option<FileMark> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let modified_ms = modified.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    let len = metadata.len();
    if let Some(known) = known
        && modified_ms != 0
        && (known.len, known.modified_ms) == (len, modified_ms)
    {
        return Some(known.clone());
    }
    Some(FileMark { len, modified_ms, hash: hash(path, len) })
}

/// Returns whether two states have the same content, as far as is known.
pub(super) fn same(a: Option<&FileMark>, b: Option<&FileMark>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => match (&a.hash, &b.hash) {
            (Some(x), Some(y)) => a.len == b.len && x == y,
            _ => (a.len, a.modified_ms) == (b.len, b.modified_ms),
        },
        _ => false,
    }
}

fn hash(path: &Path, len: u64) -> Option<String> {
    if len > MAX_HASHED_BYTES {
        return None;
    }
    let mut file = File::open(path).ok()?.take(MAX_HASHED_BYTES);
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut buffer).ok()?;
        let Some(bytes) = buffer.get(..read).filter(|b| !b.is_empty()) else { break };
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Some(format!("{hash:016x}"))
}
