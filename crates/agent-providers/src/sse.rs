//! Parses server-sent events according to the WHATWG standard, without I/O.
//!
//! An event with one data line that lies within one network read is not copied. There is one deviation: the last event is
//! dispatched even if no blank line follows it, because some servers end their streams in this way.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::lines::{Cut, LineCutter, TooLong, text};
use crate::protocol::{Flow, Frame};

/// Splits a stream into events.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    lines: LineCutter,
    limit: usize,
    /// The data lines so far, unless they can be borrowed.
    data: String,
    has_data: bool,
    event: String,
    /// Whether JSON without a field name is accepted, and whether such a value is incomplete.
    takes_json: bool,
    in_json: bool,
}

/// The meaning of a line.
enum Field<'l> {
    /// A blank line: the event is complete.
    Blank,
    Data(&'l [u8]),
    Event(&'l [u8]),
    /// A comment or a field that is ignored.
    Other,
}

impl SseDecoder {
    /// Returns a decoder that rejects events with more than `limit` bytes of data.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            lines: LineCutter::new(limit),
            limit,
            data: String::new(),
            has_data: false,
            event: String::new(),
            takes_json: false,
            in_json: false,
        }
    }

    /// Accepts JSON without a field name: where an event can begin, a line that begins with a brace or a bracket is data, and
    /// so are the following lines up to a blank one. The standard ignores such lines, but some servers report errors in them.
    pub(crate) fn with_bare_json(mut self) -> Self {
        self.takes_json = true;
        self
    }

    /// Passes the events of a piece of the stream to `on`.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>,
    ) -> Result<Flow, Cut<E>> {
        // The only data line of the incomplete event, while it can be borrowed.
        let mut only: Option<&[u8]> = None;
        while let Some(line) = self.lines.next(&mut piece)? {
            if self.takes_json && self.is_json(&line) {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.keep(&line)?;
                continue;
            }
            match field(&line) {
                Field::Blank => {
                    if self.dispatch(only.take(), on)? == Flow::Done {
                        return Ok(Flow::Done);
                    }
                }
                Field::Data(_) if self.has_data => {
                    if let Some(first) = only.take() {
                        self.keep(first)?;
                    }
                    self.data.push('\n');
                    self.keep(data_of(&line))?;
                }
                Field::Data(_) => {
                    self.has_data = true;
                    match line {
                        Cow::Borrowed(line) => only = Some(data_of(line)),
                        Cow::Owned(line) => self.keep(data_of(&line))?,
                    }
                }
                Field::Event(name) => text(name).as_ref().clone_into(&mut self.event),
                Field::Other => {}
            }
        }
        if let Some(only) = only {
            self.keep(only)?;
        }
        Ok(Flow::More)
    }

    /// Ends the stream. The last line may lack its line end and the last event its blank line.
    pub(crate) fn end<E>(
        &mut self,
        on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>,
    ) -> Result<Flow, Cut<E>> {
        if let Some(line) = self.lines.last() {
            if self.takes_json && self.is_json(&line) {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.keep(&line)?;
                return self.dispatch(None, on);
            }
            match field(&line) {
                Field::Data(data) => {
                    if self.has_data {
                        self.data.push('\n');
                    }
                    self.has_data = true;
                    self.keep(data)?;
                }
                Field::Event(name) => text(name).as_ref().clone_into(&mut self.event),
                Field::Blank | Field::Other => {}
            }
        }
        self.dispatch(None, on)
    }

    /// Returns whether a line belongs to a JSON value without a field name.
    fn is_json(&mut self, line: &[u8]) -> bool {
        if !self.has_data {
            self.in_json = matches!(line.first(), Some(b'{' | b'['));
        }
        self.in_json && !line.is_empty()
    }

    fn keep(&mut self, data: &[u8]) -> Result<(), TooLong> {
        if self.data.len().saturating_add(data.len()) > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        self.data.push_str(&text(data));
        Ok(())
    }

    fn dispatch<E>(
        &mut self,
        only: Option<&[u8]>,
        on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>,
    ) -> Result<Flow, Cut<E>> {
        let mut flow = Flow::More;
        if std::mem::take(&mut self.has_data) {
            let event = (!self.event.is_empty()).then_some(self.event.as_str());
            let end = match only {
                Some(data) => on(Frame { event, data: &text(data) }),
                None => on(Frame { event, data: &self.data }),
            };
            flow = end.map_err(Cut::Reader)?;
        }
        self.data.clear();
        self.event.clear();
        self.in_json = false;
        Ok(flow)
    }
}

fn field(line: &[u8]) -> Field<'_> {
    match line.first() {
        None => Field::Blank,
        Some(b'd') if is_field(line, b"data") => Field::Data(data_of(line)),
        Some(b'e') if is_field(line, b"event") => Field::Event(value_of(line, b"event")),
        Some(_) => Field::Other,
    }
}

fn is_field(line: &[u8], name: &[u8]) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.first().is_none_or(|b| *b == b':'))
}

fn data_of(line: &[u8]) -> &[u8] {
    value_of(line, b"data")
}

/// Returns the bytes after the name, the colon and one space.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> &'l [u8] {
    let value = line.get(name.len()..).unwrap_or_default();
    let value = value.strip_prefix(b":").unwrap_or(value);
    value.strip_prefix(b" ").unwrap_or(value)
}
