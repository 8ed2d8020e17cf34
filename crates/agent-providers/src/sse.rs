//! Server-sent events, as the WHATWG standard has them. No I/O.
//!
//! An event whose one data line lies within one piece of the network reaches the reader without a copy, and its
//! bytes are checked for UTF-8 once. One deviation: the last event counts even when no blank line follows it,
//! because some servers end their stream so.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::lines::{Cut, LineCutter, TooLong, text};
use crate::protocol::{Flow, Frame};

/// Cuts a stream into events.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    lines: LineCutter,
    limit: usize,
    /// The data lines so far, when they could not be borrowed: there are several, or the piece ended.
    data: String,
    has_data: bool,
    event: String,
    /// Whether JSON counts that no field name stands before, and whether a value of it is open.
    takes_json: bool,
    in_json: bool,
}

/// What a line says.
enum Field<'l> {
    /// A blank line: the event is complete.
    Blank,
    Data(&'l [u8]),
    Event(&'l [u8]),
    /// A comment, or a field that means nothing here.
    Other,
}

impl SseDecoder {
    /// Events whose data is longer than `limit` bytes are an error.
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

    /// The same, but a line that begins with a brace or a bracket where an event could begin is data, and so are the
    /// lines after it until a blank one. The standard would pass over them in silence, and some servers report in this
    /// way what went wrong in the middle of a stream.
    pub(crate) fn with_bare_json(mut self) -> Self {
        self.takes_json = true;
        self
    }

    /// Takes a piece of the stream.
    pub(crate) fn feed<E>(
        &mut self,
        mut piece: &[u8],
        on: &mut dyn FnMut(Frame<'_>) -> Result<Flow, E>,
    ) -> Result<Flow, Cut<E>> {
        // The one data line of the event that is open, while it can still be borrowed.
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

    /// The stream is at its end: the last line may lack its end, and the last event its blank line.
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

    /// Whether a line is part of a JSON value without a field name.
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

/// What follows the name, the colon and one space.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> &'l [u8] {
    let value = line.get(name.len()..).unwrap_or_default();
    let value = value.strip_prefix(b":").unwrap_or(value);
    value.strip_prefix(b" ").unwrap_or(value)
}
