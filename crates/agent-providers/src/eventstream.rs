//! AWS event-stream frames, as Bedrock streams its answers (D15). No I/O.
//!
//! A frame is a length, headers and a payload, with a checksum over the lengths and one over everything. This module
//! finds the frames in the pieces that the network brings and bounds their size; what is inside of a frame is read by
//! the AWS SDK's own `aws-smithy-eventstream`. Lengths are checked as soon as they are there, so that a broken one does
//! not make us wait for bytes that never come.
//!
//! ```
//! use agent_providers::eventstream::FrameDecoder;
//! // The empty message of the AWS test vectors.
//! let bytes = [0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
//! let mut frames = FrameDecoder::new(1 << 20);
//! let (mut first, mut rest) = bytes.split_at(5);
//! assert!(frames.next(&mut first)?.is_none());
//! let message = frames.next(&mut rest)?.unwrap();
//! assert!(message.headers().is_empty() && message.payload().is_empty());
//! # Ok::<(), agent_providers::eventstream::FrameError>(())
//! ```

mod crc;
mod read;

#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

pub(crate) use crc::crc32;
pub(crate) use read::read;

/// The bytes of a frame before its headers: its length, that of its headers, and a checksum over both.
const PRELUDE: usize = 12;

/// The bytes of a frame that has neither headers nor payload.
const SMALLEST: usize = 16;

/// The most bytes of a frame's headers, as AWS documents it.
const MAX_HEADER_BYTES: usize = 128 << 10;

/// The number of headers up to which each name is compared with all others. Bedrock sends three.
const FEW_HEADERS: usize = 16;

/// A frame that cannot be read. The stream cannot be read on after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is longer than the bound.
    #[error("a frame of the event stream has {length} bytes; at most {limit} are taken")]
    TooLong {
        /// Its length in bytes, as it says itself.
        length: usize,
        /// The bound in bytes.
        limit: usize,
    },
    /// Its lengths contradict each other.
    #[error(
        "a frame of the event stream claims {length} bytes of which {headers} are headers, which cannot be"
    )]
    Lengths {
        /// Its length in bytes, as it says itself.
        length: usize,
        /// That of its headers.
        headers: usize,
    },
    /// The checksum over its lengths is wrong.
    #[error(
        "the checksum over the lengths of an event-stream frame is {found:#010x} instead of {wanted:#010x}"
    )]
    Prelude {
        /// What the bytes give.
        wanted: u32,
        /// What the frame says.
        found: u32,
    },
    /// Two of its headers have the same name.
    #[error("a frame of the event stream has the header {0:?} twice")]
    DuplicateHeader(String),
    /// Its headers cannot be read, or the checksum over all of it is wrong.
    #[error("a frame of the event stream is corrupt: {0}")]
    Corrupt(#[source] aws_smithy_eventstream::error::Error),
}

/// Cuts a stream into frames. It keeps at most one frame, as far as it has come.
#[derive(Debug)]
pub struct FrameDecoder {
    carry: Vec<u8>,
    limit: usize,
}

impl FrameDecoder {
    /// Frames longer than `limit` bytes are an error.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { carry: Vec::new(), limit }
    }

    /// Takes the next frame from the front of `piece`. `None` when it holds no whole frame any more; then all of it was
    /// taken.
    ///
    /// # Errors
    /// When the frame cannot be read; nothing more can be read from the stream then.
    pub fn next(&mut self, piece: &mut &[u8]) -> Result<Option<Message>, FrameError> {
        self.cut(piece)?.map(|frame| message(&frame)).transpose()
    }

    /// Takes the bytes of the next frame from the front of `piece`, as [`next`](Self::next) does. Only the checksum over the
    /// frame's lengths has been verified.
    fn cut<'p>(&mut self, piece: &mut &'p [u8]) -> Result<Option<Cow<'p, [u8]>>, FrameError> {
        if self.carry.is_empty()
            && let Some(length) = self.length(piece)?
            && let Some((frame, rest)) = piece.split_at_checked(length)
        {
            *piece = rest;
            return Ok(Some(Cow::Borrowed(frame)));
        }
        self.fill(PRELUDE, piece);
        let Some(length) = self.length(&self.carry)? else { return Ok(None) };
        self.fill(length, piece);
        let is_whole = self.carry.len() >= length;
        Ok(is_whole.then(|| Cow::Owned(std::mem::take(&mut self.carry))))
    }

    /// How many bytes of a frame are here whose end has not come.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.carry.len()
    }

    /// Moves bytes until so many of the frame are here.
    fn fill(&mut self, wanted: usize, piece: &mut &[u8]) {
        let missing = wanted.saturating_sub(self.carry.len()).min(piece.len());
        let (taken, rest) = piece.split_at(missing);
        self.carry.extend_from_slice(taken);
        *piece = rest;
    }

    /// The length of the frame that begins here, when its prelude is here.
    fn length(&self, frame: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some((prelude, _)) = frame.split_first_chunk::<PRELUDE>() else { return Ok(None) };
        let [l0, l1, l2, l3, h0, h1, h2, h3, c0, c1, c2, c3] = *prelude;
        let as_len = |bytes| usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
        let (length, headers) = (as_len([l0, l1, l2, l3]), as_len([h0, h1, h2, h3]));
        let (wanted, found) =
            (crc32(&[l0, l1, l2, l3, h0, h1, h2, h3]), u32::from_be_bytes([c0, c1, c2, c3]));
        if wanted != found {
            return Err(FrameError::Prelude { wanted, found });
        }
        if length < SMALLEST || headers > length - SMALLEST || headers > MAX_HEADER_BYTES {
            return Err(FrameError::Lengths { length, headers });
        }
        if length > self.limit {
            return Err(FrameError::TooLong { length, limit: self.limit });
        }
        Ok(Some(length))
    }
}

/// Reads a whole frame.
fn message(frame: &[u8]) -> Result<Message, FrameError> {
    let message = aws_smithy_eventstream::frame::read_message_from(frame).map_err(FrameError::Corrupt)?;
    match duplicate(message.headers()) {
        Some(name) => Err(FrameError::DuplicateHeader(name.to_owned())),
        None => Ok(message),
    }
}

/// Returns a name that two headers have.
fn duplicate(headers: &[Header]) -> Option<&str> {
    let mut names = headers.iter().map(|header| header.name().as_str()).enumerate();
    if headers.len() <= FEW_HEADERS {
        let seen = |at, name| headers.iter().take(at).any(|header| header.name().as_str() == name);
        return names.find_map(|(at, name)| seen(at, name).then_some(name));
    }
    let mut seen = BTreeSet::new();
    names.find_map(|(_, name)| (!seen.insert(name)).then_some(name))
}
