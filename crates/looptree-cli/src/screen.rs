//! Events, texts and a status line on a terminal or in a file.

mod diff;
mod events;
mod markdown;
mod status;
mod styled;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::args::Color;
use markdown::Markdown;
use status::Status;

pub(crate) use diff::lines as diff_lines;
pub(crate) use events::why;
pub(crate) use styled::{Styled, brief, question};

/// The width of a terminal that does not tell it.
const USUAL_WIDTH: usize = 80;
/// Lines are not wider than this, also on a wider terminal.
const MAX_WIDTH: usize = 120;

/// Where a screen writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Bold,
    Red,
    Green,
    Cyan,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "\x1b[2m",
            Self::Bold => "\x1b[1m",
            Self::Red => "\x1b[31m",
            Self::Green => "\x1b[32m",
            Self::Cyan => "\x1b[36m",
        }
    }
}

/// What ends a style.
const RESET: &str = "\x1b[0m";

/// Writes data to the standard output: unchanged for a program, and escaped for a terminal.
pub(crate) fn write_output(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        out.write_all(Styled::prose(text).as_str().as_bytes())?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    out.flush()
}

#[derive(Default)]
struct State {
    /// The text of a reply, of which whole lines are shown.
    markdown: Markdown,
    thinking: String,
    /// Whether the last thing that was shown is text of a reply or thinking.
    in_reply: bool,
    status: Option<Status>,
    /// The calls that are running, by their ids, with the line that describes each.
    calls: BTreeMap<String, Styled>,
    /// The call whose line is the last thing that was shown.
    last_call: Option<String>,
}

/// A terminal or a file. A clone writes to the same one.
#[derive(Clone)]
pub(crate) struct Screen {
    state: Arc<Mutex<State>>,
    gone: Arc<AtomicBool>,
    /// Whether the terminal is in raw mode, so that a line feed alone does not return the cursor.
    raw: Arc<AtomicBool>,
    stream: Stream,
    quiet: bool,
    pub(crate) colors: bool,
    pub(crate) live: bool,
}

impl Screen {
    pub(crate) fn new(stream: Stream, color: Color) -> Self {
        let terminal = match stream {
            Stream::Out => std::io::stdout().is_terminal(),
            Stream::Err => std::io::stderr().is_terminal(),
        };
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            state: Arc::default(),
            gone: Arc::default(),
            raw: Arc::default(),
            stream,
            quiet: false,
            colors: match color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => terminal && !unwanted && !dumb,
            },
            live: terminal && !dumb,
        }
    }

    /// A screen that shows errors only.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Returns whether only errors are shown.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether the output has no reader left: the pipe was closed, or the disk is full.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn set_raw(&self, raw: bool) {
        self.raw.store(raw, Ordering::Relaxed);
    }

    /// The columns of a line.
    pub(crate) fn width(&self) -> usize {
        if !self.live {
            return USUAL_WIDTH;
        }
        crossterm::terminal::size().map_or(USUAL_WIDTH, |(columns, _)| match usize::from(columns) {
            0 => USUAL_WIDTH,
            columns => columns,
        })
    }

    /// The columns of a text that is read.
    pub(crate) fn text_width(&self) -> usize {
        self.width().saturating_sub(1).clamp(20, MAX_WIDTH)
    }

    /// The rows of the terminal.
    pub(crate) fn rows(&self) -> usize {
        crossterm::terminal::size().map_or(24, |(_, rows)| usize::from(rows).max(4))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, text: &str) {
        let text =
            if self.raw.load(Ordering::Relaxed) { text.replace('\n', "\r\n") } else { text.to_owned() };
        let written = match self.stream {
            Stream::Out => {
                let mut out = std::io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            Stream::Err => {
                let mut err = std::io::stderr().lock();
                err.write_all(text.as_bytes()).and_then(|()| err.flush())
            }
        };
        if written.is_err() {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn paint(&self, style: Style, text: impl Into<Styled>) -> Styled {
        let text = text.into();
        if self.colors && style != Style::Plain && !text.is_empty() {
            Styled::rendered(format!("{}{}{RESET}", style.code(), text.as_str()))
        } else {
            text
        }
    }

    /// Shows lines above the status line.
    fn above(&self, state: &mut State, text: &Styled) {
        state.last_call = None;
        let mut whole = state.status.as_mut().map(Status::erased).unwrap_or_default();
        whole.push_str(text.as_str());
        if let Some(status) = &mut state.status {
            whole.push_str(&status.drawn(self));
        }
        self.put(&whole);
    }

    /// A line of the program's own.
    pub(crate) fn line(&self, text: impl Into<Styled>) {
        if self.quiet {
            return;
        }
        self.error_line(text);
    }

    /// A line that is shown also on a quiet screen.
    pub(crate) fn error_line(&self, text: impl Into<Styled>) {
        let mut state = self.state();
        self.end_reply(&mut state);
        self.above(&mut state, &ended(Styled::join(self.rows_of(text))));
    }

    /// Returns the rows that a line takes: on a terminal no row is wider than it, and words are broken only if they are.
    pub(crate) fn rows_of(&self, text: impl Into<Styled>) -> Vec<Styled> {
        let text = text.into();
        if self.live { text.rows(self.width()) } else { vec![text] }
    }

    /// A styled text that is broken between words, each line with this indentation.
    pub(crate) fn paragraph(&self, style: Style, indent: &str, text: impl Into<Styled>) {
        let columns = self.text_width().saturating_sub(indent.len());
        for line in text.into().lines() {
            let parts = if self.live { line.wrap(columns) } else { vec![line] };
            for part in parts {
                self.line(Styled::from(indent) + self.paint(style, part));
            }
        }
    }

    /// Shows text that is no line of its own, for a question.
    pub(crate) fn ask(&self, text: &str) {
        let mut state = self.state();
        self.end_reply(&mut state);
        self.above(&mut state, &self.paint(Style::Bold, text));
    }

    /// Shows a whole text as Markdown.
    pub(crate) fn markdown(&self, text: &str) {
        let mut state = self.state();
        self.end_reply(&mut state);
        let mut markdown = Markdown::default();
        let shown = markdown.push(text, self) + markdown.end(self);
        self.above(&mut state, &shown);
    }

    /// Shows what is not yet shown of a reply.
    fn end_reply(&self, state: &mut State) {
        if !std::mem::take(&mut state.in_reply) {
            return;
        }
        let thinking = self.thinking_lines(state, true);
        let mut markdown = std::mem::take(&mut state.markdown);
        self.above(state, &(thinking + markdown.end(self)));
    }

    /// Takes the whole lines of the thinking, or all of it.
    fn thinking_lines(&self, state: &mut State, all: bool) -> Styled {
        let end = if all { state.thinking.len() } else { state.thinking.rfind('\n').map_or(0, |at| at + 1) };
        let rest = state.thinking.split_off(end);
        let lines = Styled::prose(&std::mem::replace(&mut state.thinking, rest));
        let parts =
            lines.lines().flat_map(|line| if self.live { line.wrap(self.text_width()) } else { vec![line] });
        parts.fold(Styled::default(), |shown, part| shown + ended(self.paint(Style::Dim, part)))
    }
}

/// Adds the end of a line.
fn ended(line: Styled) -> Styled {
    line + Styled::prose("\n")
}

#[cfg(test)]
mod tests;
