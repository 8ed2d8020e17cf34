//! Finds the place in a file that an edit refers to, although models reproduce text with small differences.

use std::ops::Range;

use memchr::memmem::Finder;

use crate::text;

/// The outcome of a search.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// One place, as a range of bytes of the file.
    Once(Range<usize>),
    /// Several places; their number.
    Many(usize),
    /// No place.
    Nowhere,
}

/// A file that is prepared for several searches.
#[derive(Debug)]
pub(super) struct Haystack<'a> {
    bytes: &'a [u8],
    line_ends: Normal,
    style: Option<Normal>,
    /// The bytes that were compared so far, for all searches.
    compared: usize,
}

impl<'a> Haystack<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, line_ends: Normal::of(bytes, Likeness::LineEnds), style: None, compared: 0 }
    }

    /// Returns the place of `old`. An exact match takes precedence over similar places.
    pub(super) fn find(&mut self, old: &str) -> Found {
        let exact = Normal::of(old.as_bytes(), Likeness::LineEnds);
        match places(&self.line_ends, &exact, &mut self.compared) {
            Found::Nowhere => {}
            found => return found,
        }
        let bytes = self.bytes;
        let style = self.style.get_or_insert_with(|| Normal::of(bytes, Likeness::Style));
        places(style, &Normal::of(old.as_bytes(), Likeness::Style), &mut self.compared)
    }
}

/// The maximum number of bytes to compare in all searches. A text that repeats one letter occurs almost everywhere in a file of that
/// letter, and comparing every place would take hours.
const MAX_COMPARED: usize = 1 << 28;

fn places(file: &Normal, old: &Normal, compared: &mut usize) -> Found {
    if old.bytes.is_empty() {
        return Found::Nowhere;
    }
    let is_match = |at: usize| {
        let end = at + old.bytes.len();
        // If blanks were removed from the end of `old`, it must end at the end of a line. Otherwise it could match in
        // the middle of a word.
        let ends_well = !old.end_trimmed || matches!(file.bytes.get(end), None | Some(b'\n'));
        ends_well && file.is_boundary(at) && file.is_boundary(end)
    };
    let finder = Finder::new(&old.bytes);
    let mut count = 0;
    let mut first = None;
    let mut from = 0;
    while let Some(at) = file.bytes.get(from..).and_then(|rest| finder.find(rest)).map(|at| from + at) {
        if is_match(at) {
            count += 1;
            first = first.or(Some(at));
        }
        // Overlapping places count separately: `aaa` contains `aa` twice.
        from = at + 1;
        *compared = compared.saturating_add(old.bytes.len());
        if *compared > MAX_COMPARED {
            return Found::Many(count.max(2));
        }
    }
    match (count, first) {
        (1, Some(at)) => match file.original(&(at..at + old.bytes.len())) {
            Some(span) => Found::Once(span),
            None => Found::Nowhere,
        },
        (0, _) | (_, None) => Found::Nowhere,
        (count, Some(_)) => Found::Many(count),
    }
}

/// The differences that a normalized form removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    /// Only the difference between `\r\n` and `\n`, which the model cannot see.
    LineEnds,
    /// Also blanks at line ends, styles of quotes, dashes and spaces, and compatibility forms of letters.
    Style,
}

/// A normalized text, with the position of each byte in the original. It has as many lines as the original.
#[derive(Debug, Clone, Default)]
pub(super) struct Normal {
    /// The normalized text.
    pub(super) bytes: Vec<u8>,
    /// For each normalized byte, where the original character begins, and its length.
    starts: Vec<u32>,
    lens: Vec<u8>,
    /// Whether blanks were removed from the end of the last line.
    pub(super) end_trimmed: bool,
}

impl Normal {
    /// Normalizes `original`. Invalid UTF-8 becomes U+FFFD, as in the text that the model received.
    pub(super) fn of(original: &[u8], likeness: Likeness) -> Self {
        let mut normal = Self::default();
        let mut at = 0;
        for chunk in original.utf8_chunks() {
            let mut characters = chunk.valid().chars().peekable();
            while let Some(c) = characters.next() {
                let mut len = c.len_utf8();
                let c = match c {
                    '\r' if characters.peek() == Some(&'\n') => {
                        characters.next();
                        len += 1;
                        '\n'
                    }
                    c => c,
                };
                if c == '\n' && likeness == Likeness::Style {
                    normal.trim_line();
                }
                normal.push(c, at..at + len, likeness);
                at += len;
            }
            if !chunk.invalid().is_empty() {
                normal.push(char::REPLACEMENT_CHARACTER, at..at + chunk.invalid().len(), likeness);
                at += chunk.invalid().len();
            }
        }
        if likeness == Likeness::Style {
            normal.end_trimmed = normal.trim_line();
        }
        normal
    }

    /// Returns the range of the original that corresponds to `part` of the normalized text.
    pub(super) fn original(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let last = part.end.checked_sub(1)?;
        let start = *self.starts.get(part.start)? as usize;
        let end = *self.starts.get(last)? as usize + usize::from(*self.lens.get(last)?);
        Some(start..end)
    }

    /// Returns whether a character of the original begins at `at`, or the text ends there. A character that expands to
    /// several, such as a ligature, cannot be replaced in part.
    pub(super) fn is_boundary(&self, at: usize) -> bool {
        match (at.checked_sub(1).and_then(|before| self.starts.get(before)), self.starts.get(at)) {
            (Some(before), Some(here)) => before != here,
            (None, _) | (_, None) => true,
        }
    }

    fn push(&mut self, c: char, from: Range<usize>, likeness: Likeness) {
        let mut buffer = [0; 4];
        let (start, len) = (offset(from.start), u8::try_from(from.len()).unwrap_or(u8::MAX));
        let mut put = |c: char| {
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            self.bytes.extend_from_slice(bytes);
            self.starts.extend(bytes.iter().map(|_| start));
            self.lens.extend(bytes.iter().map(|_| len));
        };
        match likeness {
            Likeness::LineEnds => put(c),
            Likeness::Style => match expanded(c) {
                Some(text) => text.chars().for_each(put),
                None => put(text::plain(c)),
            },
        }
    }

    /// Removes the blanks from the end of the last line. Returns whether there were any.
    fn trim_line(&mut self) -> bool {
        let end =
            self.bytes.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
        let trimmed = end < self.bytes.len();
        self.bytes.truncate(end);
        self.starts.truncate(end);
        self.lens.truncate(end);
        trimmed
    }
}

/// Converts an offset. It never saturates for files, which have at most [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES); the
/// offsets of texts from the model are not used.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Returns the expansion of a compatibility character: the part of NFKC that editors and models produce in practice.
fn expanded(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2026}' => "...",
        '\u{FB00}' => "ff",
        '\u{FB01}' => "fi",
        '\u{FB02}' => "fl",
        '\u{FB03}' => "ffi",
        '\u{FB04}' => "ffl",
        '\u{2122}' => "TM",
        '\u{00B2}' => "2",
        '\u{00B3}' => "3",
        '\u{00B9}' => "1",
        '\u{00BD}' => "1/2",
        '\u{00BC}' => "1/4",
        '\u{00BE}' => "3/4",
        _ => return None,
    })
}

/// The maximum number of lines in a hint.
const MAX_LINES: usize = 20;

/// The maximum number of bytes of a line in a hint.
const MAX_LINE_BYTES: usize = 300;

/// Returns the lines of the file that are most similar to `old`, or advice if none is similar.
pub(super) fn similar_lines(file: &[u8], old: &str) -> String {
    let file = String::from_utf8_lossy(file);
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let Some(start) = position(&file, wanted) else {
        return " Tip: read the file again and copy the text as it is there, with its blanks.".to_owned();
    };
    let count = (old.lines().count() + 1).min(MAX_LINES);
    let mut out = "\n\nDid you mean:".to_owned();
    for line in file.lines().skip(start).take(count) {
        out.push('\n');
        out.push_str(text::head(line, MAX_LINE_BYTES));
    }
    out
}

/// Returns the first line that contains `wanted`, otherwise the line that shares most words with it, at least half.
fn position(file: &str, wanted: &str) -> Option<usize> {
    if wanted.is_empty() {
        return None;
    }
    if let Some(line) = file.lines().position(|line| line.contains(wanted)) {
        return Some(line);
    }
    let wanted: Vec<&str> = words(wanted).take(MAX_WORDS).collect();
    let mut best = None;
    let mut most = 0;
    for (number, line) in file.lines().enumerate() {
        let has: Vec<&str> = words(text::head(line, MAX_LINE_BYTES)).collect();
        let shared = wanted.iter().filter(|word| has.contains(word)).count();
        if shared > most {
            most = shared;
            best = Some(number);
        }
    }
    best.filter(|_| most * 2 >= wanted.len())
}

/// The maximum number of words that are compared.
const MAX_WORDS: usize = 40;

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
