//! Splits the byte stream of an AWS event stream into frames, without I/O. Bedrock streams its responses in this format.
//!
//! A frame has two lengths, headers and a payload, a checksum over the lengths and a checksum over the whole frame.
//! [`FrameDecoder`] limits the size of a frame and verifies the lengths as soon as they have arrived, so that a corrupt
//! length does not cause a wait for bytes that never arrive. The AWS SDK's `aws-smithy-eventstream` parses the frames. For
//! frames that only have string headers, the provider uses a faster parser that does not copy.
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

mod read;

#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

pub use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

pub(crate) use read::read;

/// The size of a prelude: the length of the frame, the length of its headers and a checksum over both.
const PRELUDE: usize = 12;

/// The size of a frame without headers and payload, in bytes.
const SMALLEST: usize = 16;

/// The maximum size of a frame's headers in bytes, as documented by AWS.
const MAX_HEADER_BYTES: usize = 128 << 10;

/// The number of headers up to which each name is compared with all others. Bedrock sends three.
const FEW_HEADERS: usize = 16;

/// The error of a frame that cannot be parsed. The rest of the stream cannot be parsed either.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than the limit of the decoder.
    #[error("a frame of the event stream has {length} bytes; at most {limit} are taken")]
    TooLong {
        /// The length of the frame in bytes, as its prelude states it.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The two lengths contradict each other.
    #[error(
        "a frame of the event stream claims {length} bytes of which {headers} are headers, which cannot be"
    )]
    Lengths {
        /// The length of the frame in bytes, as its prelude states it.
        length: usize,
        /// The length of the headers in bytes.
        headers: usize,
    },
    /// The checksum over the lengths is wrong.
    #[error(
        "the checksum over the lengths of an event-stream frame is {found:#010x} instead of {wanted:#010x}"
    )]
    Prelude {
        /// The checksum of the received bytes.
        wanted: u32,
        /// The checksum in the frame.
        found: u32,
    },
    /// Two headers have the same name.
    #[error("a frame of the event stream has the header {0:?} twice")]
    DuplicateHeader(String),
    /// The headers cannot be parsed, or the checksum over the frame is wrong.
    #[error("a frame of the event stream is corrupt: {0}")]
    Corrupt(#[source] aws_smithy_eventstream::error::Error),
}

/// Splits a stream into frames. Stores at most one incomplete frame.
#[derive(Debug)]
pub struct FrameDecoder {
    carry: Vec<u8>,
    limit: usize,
}

impl FrameDecoder {
    /// Returns a decoder that rejects frames of more than `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { carry: Vec::new(), limit }
    }

    /// Removes the next frame from the front of `piece` and returns it. Returns `None` if `piece` does not complete a frame;
    /// the decoder then stores all of it.
    ///
    /// # Errors
    /// Returns a [`FrameError`] if the frame cannot be parsed. The stream is then unusable.
    pub fn next(&mut self, piece: &mut &[u8]) -> Result<Option<Message>, FrameError> {
        self.cut(piece)?.map(|frame| message(&frame)).transpose()
    }

    /// Returns the bytes of the next frame, as [`next`](Self::next) does. Only the checksum over the lengths is verified.
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

    /// Returns the number of stored bytes of an incomplete frame.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.carry.len()
    }

    /// Moves bytes from `piece` until `wanted` bytes of the frame are stored.
    fn fill(&mut self, wanted: usize, piece: &mut &[u8]) {
        let missing = wanted.saturating_sub(self.carry.len()).min(piece.len());
        let (taken, rest) = piece.split_at(missing);
        self.carry.extend_from_slice(taken);
        *piece = rest;
    }

    /// Returns the length of the frame at the start of `frame`, or `None` if its prelude is incomplete.
    fn length(&self, frame: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some((prelude, _)) = frame.split_first_chunk::<PRELUDE>() else { return Ok(None) };
        let [l0, l1, l2, l3, h0, h1, h2, h3, c0, c1, c2, c3] = *prelude;
        let as_len = |bytes| usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
        let (length, headers) = (as_len([l0, l1, l2, l3]), as_len([h0, h1, h2, h3]));
        let (wanted, found) =
            (crc32fast::hash(&[l0, l1, l2, l3, h0, h1, h2, h3]), u32::from_be_bytes([c0, c1, c2, c3]));
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

/// Parses a complete frame.
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
