//! One file, line by line.

use std::fs::File;
use std::io::{self, Read};

use agent_core::CancellationToken;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};

use super::output::shown_line;
use super::{MAX_SEARCHED_LINE_BYTES, SearchError};

/// The most memory that a compiled expression may take, in bytes.
const MAX_REGEX_BYTES: usize = 10 * 1024 * 1024;

/// Finds the lines.
#[derive(Debug)]
pub(super) struct Scanner {
    matcher: RegexMatcher,
    searcher: Searcher,
}

/// A line that fits.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) line: u64,
    pub(super) text: String,
}

impl Scanner {
    pub(super) fn new(pattern: &str, case_sensitive: bool) -> Result<Self, SearchError> {
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(!case_sensitive)
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build(pattern)
            .map_err(|error| SearchError::Regex {
                pattern: pattern.to_owned(),
                cause: error.to_string(),
                literal: literal(pattern),
            })?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_SEARCHED_LINE_BYTES))
            .build();
        Ok(Self { matcher, searcher })
    }

    /// The lines of `file` that fit, at most `max`. None of a binary file.
    pub(super) fn scan(&mut self, file: File, max: usize, stop: &CancellationToken) -> io::Result<Vec<Hit>> {
        let mut hits = Hits { matcher: &self.matcher, found: Vec::new(), max };
        self.searcher.search_reader(&self.matcher, Stoppable { file, stop }, &mut hits)?;
        Ok(hits.found)
    }
}

/// An expression that finds `text` itself.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if matches!(
            c,
            '\\' | '.'
                | '+'
                | '*'
                | '?'
                | '('
                | ')'
                | '|'
                | '['
                | ']'
                | '{'
                | '}'
                | '^'
                | '$'
                | '#'
                | '&'
                | '-'
                | '~'
        ) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

struct Hits<'a> {
    matcher: &'a RegexMatcher,
    found: Vec<Hit>,
    max: usize,
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let bytes = found.bytes();
        let place = self.matcher.find(bytes).ok().flatten().map_or(0, |place| place.start());
        let text = shown_line(bytes, place);
        self.found.push(Hit { line: found.line_number().unwrap_or_default(), text });
        Ok(self.found.len() < self.max)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        if end.binary_byte_offset().is_some() {
            self.found.clear();
        }
        Ok(())
    }
}

/// A file whose reading ends with an error once the search is to stop: one without a match gives no other chance.
struct Stoppable<'a> {
    file: File,
    stop: &'a CancellationToken,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("the search was stopped"));
        }
        self.file.read(buffer)
    }
}
