//! Splits a stream of bytes into lines, and into frames with one JSON value per line.
//!
//! A line that lies within one network read is borrowed from it. An incomplete line is stored and never searched again, so
//! the work is linear in the number of bytes.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::protocol::{Flow, Frame};

/// The error of a line or of event data that is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// The limit in bytes.
    pub(crate) limit: usize,
}

/// An error of the framing or of the reader of the frames.
#[derive(Debug)]
pub(crate) enum Cut<E> {
    /// A frame is too long.
    TooLong(TooLong),
    /// The reader rejected a frame.
    Reader(E),
}

impl<E> From<TooLong> for Cut<E> {
    fn from(error: TooLong) -> Self {
        Self::TooLong(error)
    }
}

/// Splits at LF, CR LF and CR in any mixture. Drops a byte order mark at the start.
#[derive(Debug)]
pub(crate) struct LineCutter {
    carry: Vec<u8>,
    limit: usize,
    /// Whether the last piece ended with CR. An LF at the start of the next piece belongs to it.
    after_cr: bool,
    began: bool,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl LineCutter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { carry: Vec::new(), limit, after_cr: false, began: false }
    }

    /// Removes the next line from the front of `rest`. If `rest` contains no line end, stores all of it and returns `None`.
    pub(crate) fn next<'c>(&mut self, rest: &mut &'c [u8]) -> Result<Option<Cow<'c, [u8]>>, TooLong> {
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            *rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        let Some(at) = memchr::memchr2(b'\n', b'\r', rest) else {
            self.keep(rest)?;
            *rest = &[];
            return Ok(None);
        };
        let (line, end) = rest.split_at(at);
        let is_cr = end.first() == Some(&b'\r');
        let end = end.get(1..).unwrap_or_default();
        if is_cr && end.is_empty() {
            self.after_cr = true;
        }
        *rest = if is_cr { end.strip_prefix(b"\n").unwrap_or(end) } else { end };
        let line = if self.carry.is_empty() {
            self.check(line.len())?;
            Cow::Borrowed(line)
        } else {
            self.keep(line)?;
            Cow::Owned(std::mem::take(&mut self.carry))
        };
        Ok(Some(self.without_mark(line)))
    }

    /// Returns the last line if no line end follows it.
    pub(crate) fn last(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.carry);
        let line = self.without_mark(Cow::Owned(line)).into_owned();
        (!line.is_empty()).then_some(line)
    }

    fn without_mark<'c>(&mut self, line: Cow<'c, [u8]>) -> Cow<'c, [u8]> {
        if std::mem::replace(&mut self.began, true) {
            return line;
        }
        match line {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.strip_prefix(BOM).unwrap_or(bytes)),
            Cow::Owned(bytes) => Cow::Owned(bytes.strip_prefix(BOM).map(<[u8]>::to_vec).unwrap_or(bytes)),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.check(self.carry.len().saturating_add(bytes.len()))?;
        self.carry.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&self, len: usize) -> Result<(), TooLong> {
        if len > self.limit { Err(TooLong { limit: self.limit }) } else { Ok(()) }
    }
}

/// Converts bytes to text. Replaces invalid UTF-8.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Splits a stream into frames with one JSON value per line. Skips empty lines.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    lines: LineCutter,
}

impl LineDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: LineCutter::new(limit) }
    }

    /// Passes the frames of a piece of the stream to `on`.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>,
    ) -> Result<Flow, Cut<E>> {
        while let Some(line) = self.lines.next(&mut piece)? {
            if dispatch(&line, on)? == Flow::Done {
                return Ok(Flow::Done);
            }
        }
        Ok(Flow::More)
    }

    /// Ends the stream. The last line may lack its line end.
    pub(crate) fn end<E>(
        &mut self,
        on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>,
    ) -> Result<Flow, Cut<E>> {
        match self.lines.last() {
            Some(line) => dispatch(&line, on),
            None => Ok(Flow::More),
        }
    }
}

fn dispatch<E>(line: &[u8], on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>) -> Result<Flow, Cut<E>> {
    let data = text(line);
    if data.trim().is_empty() {
        return Ok(Flow::More);
    }
    on(Frame { event: None, data: &data }).map_err(Cut::Reader)
}
