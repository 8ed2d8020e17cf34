//! Finding the one place that is meant.

use std::ops::Range;

use memchr::memmem::Finder;

use super::normal::{Likeness, Normal};

/// What a search came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// One place: these bytes of the file.
    Once(Range<usize>),
    /// This many places.
    Many(usize),
    /// No place.
    Nowhere,
}

/// A file, ready to be searched many times.
#[derive(Debug)]
pub(super) struct Haystack<'a> {
    bytes: &'a [u8],
    line_ends: Normal,
    style: Option<Normal>,
}

impl<'a> Haystack<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, line_ends: Normal::of(bytes, Likeness::LineEnds), style: None }
    }

    /// Where `old` is. A place that has it letter for letter wins over places that are only alike; among equals
    /// there must be one.
    pub(super) fn find(&mut self, old: &str) -> Found {
        let exact = Normal::of(old.as_bytes(), Likeness::LineEnds);
        match places(&self.line_ends, &exact) {
            Found::Nowhere => {}
            found => return found,
        }
        let bytes = self.bytes;
        let style = self.style.get_or_insert_with(|| Normal::of(bytes, Likeness::Style));
        places(style, &Normal::of(old.as_bytes(), Likeness::Style))
    }
}

/// How many bytes are compared at most: a text of one letter in a file of the same letter is nearly everywhere, and to
/// look at each place would take hours.
const MAX_COMPARED: usize = 1 << 28;

fn places(file: &Normal, old: &Normal) -> Found {
    if old.bytes.is_empty() {
        return Found::Nowhere;
    }
    let fits = |at: usize| {
        let end = at + old.bytes.len();
        // Blanks at the end of `old` were dropped: then its end must be the end of a line, or it would match in the
        // middle of a word.
        let ends_well = !old.end_trimmed || matches!(file.bytes.get(end), None | Some(b'\n'));
        ends_well && file.is_boundary(at) && file.is_boundary(end)
    };
    let finder = Finder::new(&old.bytes);
    let mut count = 0;
    let mut first = None;
    let mut from = 0;
    let mut compared = 0usize;
    while let Some(at) = file.bytes.get(from..).and_then(|rest| finder.find(rest)).map(|at| from + at) {
        if fits(at) {
            count += 1;
            first = first.or(Some(at));
        }
        // Places that overlap are different places: `aa` is twice in `aaa`.
        from = at + 1;
        compared = compared.saturating_add(old.bytes.len());
        if compared > MAX_COMPARED {
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
