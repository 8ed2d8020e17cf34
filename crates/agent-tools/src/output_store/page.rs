//! Reads a part of an output, cut at character boundaries.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::live::slice;
use super::stored::{Place, Stored};
use super::{Folder, OutputStoreError, StoredOutput};
use crate::dir::Identity;

/// The maximum number of bytes of a character.
const MAX_CHAR: usize = 4;

/// A part of a stored output, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPage {
    text: String,
    start: u64,
    end: u64,
    output: StoredOutput,
}

impl OutputPage {
    /// Returns the part as text. Invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the position of the first byte in the output.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the position after the last byte, where the next page begins.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the output to which the part belongs.
    #[must_use]
    pub fn output(&self) -> &StoredOutput {
        &self.output
    }

    /// Returns whether this is the last part of the stored output.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.end >= self.output.kept
    }
}

/// Reads up to `limit` bytes with `bytes_at`, and at least one character, unless a growing output has none there yet.
pub(super) fn read(
    output: StoredOutput,
    offset: i64,
    limit: usize,
    bytes_at: impl FnOnce(u64, usize) -> io::Result<Vec<u8>>,
) -> Result<OutputPage, OutputStoreError> {
    let total = output.kept;
    let asked = match u64::try_from(offset) {
        Ok(offset) => offset,
        Err(_) => total.saturating_sub(offset.unsigned_abs()),
    };
    if asked > total || (asked == total && total > 0 && !output.growing) {
        return Err(OutputStoreError::PastEnd { key: output.key, offset, kept: total });
    }
    let limit = limit.max(1);
    // Reads some bytes more on both sides, to find the boundaries of characters.
    let before = asked.min(MAX_CHAR as u64 - 1);
    let before_len = usize::try_from(before).unwrap_or_default();
    let want = before_len.saturating_add(limit).saturating_add(MAX_CHAR);
    let bytes = bytes_at(asked - before, want).map_err(OutputStoreError::Disk)?;
    let first = char_start(&bytes, before_len);
    let mut last = char_start(&bytes, before_len.saturating_add(limit).min(bytes.len()));
    if last <= first {
        // The limit is smaller than one character, which is returned all the same.
        last = (first + 1..=bytes.len()).find(|at| char_start(&bytes, *at) == *at).unwrap_or(bytes.len());
    }
    let part = bytes.get(first..last).unwrap_or_default();
    let start = asked - before + first as u64;
    Ok(OutputPage {
        text: String::from_utf8_lossy(part).into_owned(),
        start,
        end: start + part.len() as u64,
        output,
    })
}

/// Returns the start of the character that contains the byte `at`, or `at` itself if no whole character surrounds it.
fn char_start(bytes: &[u8], at: usize) -> usize {
    (at.saturating_sub(MAX_CHAR - 1)..at)
        .find(|from| {
            let ends = bytes.get(*from..).unwrap_or_default();
            let len = ends.first().map_or(1, |lead| match lead {
                0xC2..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF4 => 4,
                _ => 1,
            });
            from + len > at && ends.get(..len).is_some_and(|whole| std::str::from_utf8(whole).is_ok())
        })
        .unwrap_or(at)
}

pub(super) fn bytes_at(kept: &Stored, from: u64, len: usize) -> io::Result<Vec<u8>> {
    match kept.place() {
        Place::Memory(bytes) => slice(bytes, from, len),
        Place::File { name, identity, folder, .. } => bytes_of_file(folder, name, *identity, from, len),
    }
}

/// Reads from a file of the store, which must be the one that the store has written.
pub(super) fn bytes_of_file(
    folder: &Folder,
    name: &Path,
    identity: Identity,
    from: u64,
    len: usize,
) -> io::Result<Vec<u8>> {
    let (mut file, facts) = folder.dir.open_file(name)?;
    if facts.identity != identity {
        return Err(io::Error::other("another process has replaced its file"));
    }
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
