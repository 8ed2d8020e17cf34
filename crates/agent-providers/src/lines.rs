//! Cutting a stream of bytes into lines, and frames of one JSON value a line.
//!
//! A line that lies within one piece of the network is borrowed from it. Only the piece of a line that is cut is
//! kept, and it is never searched twice, so the work is linear in the bytes however they arrive.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::protocol::{Flow, Frame};

/// A line, or the data of an event, is longer than the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong {
    /// The bound in bytes.
    pub(crate) limit: usize,
}

/// What goes wrong while frames are cut: in the cutting, or in the reader of the frames.
#[derive(Debug)]
pub(crate) enum Cut<E> {
    /// A frame is too long.
    TooLong(TooLong),
    /// The reader refused a frame.
    Reader(E),
}

impl<E> From<TooLong> for Cut<E> {
    fn from(error: TooLong) -> Self {
        Self::TooLong(error)
    }
}

/// Cuts at LF, CR LF and CR, mixed in any way and split anywhere. A byte order mark at the start is dropped.
#[derive(Debug)]
pub(crate) struct LineCutter {
    carry: Vec<u8>,
    limit: usize,
    /// The last piece ended with CR; an LF at the start of the next one belongs to it.
    after_cr: bool,
    began: bool,
}

const BOM: &[u8] = b"\xEF\xBB\xBF";

impl LineCutter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { carry: Vec::new(), limit, after_cr: false, began: false }
    }

    /// Takes the next line from the front of `rest`. `None` when it holds no line end any more; then all of it was
    /// taken.
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

    /// The last line, when no line end followed it.
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

/// Text from bytes; what is not UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Frames of one JSON value a line. Empty lines are no frames.
#[derive(Debug)]
pub(crate) struct LineDecoder {
    lines: LineCutter,
}

impl LineDecoder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { lines: LineCutter::new(limit) }
    }

    /// Takes a piece of the stream.
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

    /// The stream is at its end: the last line may lack its end.
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
