//! Searches one file, line by line.

use std::fs::File;
use std::io::{self, Read};

use agent_core::CancellationToken;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};

use super::{
    MAX_LINE_BYTES, MAX_NESTING, MAX_PATTERN_BYTES, MAX_REGEX_BYTES, MAX_SEARCHED_LINE_BYTES, SearchError,
};

/// A compiled expression and the searcher that applies it.
#[derive(Debug)]
pub(super) struct Scanner {
    matcher: RegexMatcher,
    searcher: Searcher,
}

/// A matching line.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) line: u64,
    pub(super) text: String,
}

impl Scanner {
    pub(super) fn new(pattern: &str, case_sensitive: bool) -> Result<Self, SearchError> {
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(SearchError::PatternTooLong { bytes: pattern.len() });
        }
        let matcher = RegexMatcherBuilder::new()
            .case_insensitive(!case_sensitive)
            .line_terminator(Some(b'\n'))
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .nest_limit(MAX_NESTING)
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

    /// Returns the matching lines of `file`, at most `max`, and none of a binary file.
    pub(super) fn scan(&mut self, file: File, max: usize, stop: &CancellationToken) -> io::Result<Vec<Hit>> {
        let mut hits = Hits { matcher: &self.matcher, found: Vec::new(), max };
        self.searcher.search_reader(&self.matcher, Stoppable { file, stop }, &mut hits)?;
        Ok(hits.found)
    }
}

/// Returns an expression that matches `text` literally.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
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

/// A file that returns a read error once the search is stopped. This also stops the search of a file without matches.
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

/// Returns the text of a line whose match begins at `place`: the whole line, or a part around the match if it is long.
pub(super) fn shown_line(line: &[u8], place: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    // Some text before the match helps to understand it.
    let lead = MAX_LINE_BYTES / 5;
    let start = if place + lead < MAX_LINE_BYTES { 0 } else { character_start(line, place - lead) };
    // Takes more than is shown, because invalid UTF-8 becomes longer when it is replaced.
    let part = line.get(start..line.len().min(start + MAX_LINE_BYTES + 4)).unwrap_or_default();
    let part = String::from_utf8_lossy(part);
    let shown = crate::text::head(&part, MAX_LINE_BYTES);
    let before = if start > 0 { "... " } else { "" };
    let after = if start + MAX_LINE_BYTES < line.len() { " ... (line cut)" } else { "" };
    format!("{before}{shown}{after}")
}

/// Returns the first index from `at` on where a character begins.
fn character_start(line: &[u8], at: usize) -> usize {
    (at..line.len()).take(4).find(|at| line.get(*at).is_some_and(|byte| byte & 0xC0 != 0x80)).unwrap_or(at)
}
