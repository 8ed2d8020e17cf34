//! The state of a file: its length, time and hash.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// The maximum size of a file that is hashed, in bytes: 16 MiB. Larger files are compared by length and time.
pub const MAX_HASHED_BYTES: u64 = 16 << 20;

/// The maximum number of bytes that are hashed after one call: 64 MiB. Further files are compared by length and time.
const MAX_PASS_BYTES: u64 = 64 << 20;

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileMark {
    /// The length in bytes.
    pub len: u64,
    /// The time of the last write in milliseconds since 1970-01-01 UTC; 0 if the system does not report it.
    pub modified_ms: u64,
    /// A 64-bit hash of the content with a random key that stays in the process; absent for a large file. The first of its
    /// two parts identifies the key. Hashes with different keys cannot be compared, and a guess of the content cannot be tested
    /// without the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// What is at a path.
pub(super) enum Found {
    /// The file, or `None` if there is none.
    State(Option<FileMark>),
    /// Something that the tools do not read.
    Refused,
}

/// Reads the states of files, and hashes them with the key of a watch.
pub(super) struct Look<'a> {
    pub(super) open: &'a super::watch::OpenFile,
    pub(super) key: &'a Key,
    left: u64,
}

/// The key of a watch. It is never shown or stored.
pub(super) struct Key {
    state: RandomState,
    /// Identifies the key, and says nothing about it.
    name: String,
}

impl Key {
    pub(super) fn new() -> Self {
        let name = format!("{:016x}", RandomState::new().hash_one(0));
        Self { state: RandomState::new(), name }
    }

    /// Returns the hash of at most [`MAX_HASHED_BYTES`].
    fn hash(&self, file: File) -> Option<String> {
        let mut file = file.take(MAX_HASHED_BYTES);
        let mut hash = self.state.build_hasher();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = file.read(&mut buffer).ok()?;
            let Some(bytes) = buffer.get(..read).filter(|b| !b.is_empty()) else { break };
            hash.write(bytes);
        }
        Some(format!("{}-{:016x}", self.name, hash.finish()))
    }
}

impl<'a> Look<'a> {
    pub(super) fn new(open: &'a super::watch::OpenFile, key: &'a Key) -> Self {
        Self { open, key, left: MAX_PASS_BYTES }
    }

    /// Returns the current state of a file. The content is not read if length and time equal those of `known`.
    pub(super) fn at(&mut self, path: &str, known: Option<&FileMark>) -> Found {
        let file = match (self.open)(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::State(None),
            Err(_) => return Found::Refused,
        };
        let Ok(metadata) = file.metadata() else { return Found::Refused };
        if !metadata.is_file() {
            return Found::Refused;
        }
        let modified = metadata.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let modified_ms = modified.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        let len = metadata.len();
        if let Some(known) = known
            && modified_ms != 0
            && (known.len, known.modified_ms) == (len, modified_ms)
        {
            return Found::State(Some(known.clone()));
        }
        let hash = match self.left.checked_sub(len).filter(|_| len <= MAX_HASHED_BYTES) {
            Some(left) => {
                self.left = left;
                self.key.hash(file)
            }
            None => None,
        };
        Found::State(Some(FileMark { len, modified_ms, hash }))
    }
}

/// Returns whether two states have the same content, as far as is known.
pub(super) fn same(a: Option<&FileMark>, b: Option<&FileMark>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => match (&a.hash, &b.hash) {
            (Some(x), Some(y)) if key_of(x) == key_of(y) => a.len == b.len && x == y,
            _ => (a.len, a.modified_ms) == (b.len, b.modified_ms),
        },
        _ => false,
    }
}

/// Returns the name of a hash's key; `None` for the hashes of earlier versions, which had no key.
fn key_of(hash: &str) -> Option<&str> {
    hash.split_once('-').map(|(key, _)| key)
}
