//! A file's mark: cheap to take, and cheap to see that nothing changed.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// The largest file whose content is hashed: 16 MiB. Of larger ones length and time are compared.
pub const MAX_HASHED_BYTES: u64 = 16 << 20;

/// What a file looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileMark {
    /// Its length in bytes.
    pub len: u64,
    /// When it was last written, in milliseconds since 1970-01-01 UTC; 0 where the system does not say.
    pub modified_ms: u64,
    /// The 64-bit FNV-1a hash of its content, as 16 hexadecimal digits; absent for a large file. It shows accidents, not
    /// forgeries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// What a file looks like now; `None` when there is no file. Where length and time are those of `known`, nothing is read.
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

/// Whether two marks are of the same content, as far as is known.
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
