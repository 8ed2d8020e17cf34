//! Finds the places of hunks in a file and replaces their lines.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::PatchError;
use super::parse::{Hunk, Line};
use crate::text::head;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The differences between a line of the patch and a line of the file that are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// Only the kind of the line end.
    Exact,
    /// Blanks at the end of the line.
    End,
    /// Blanks at both ends of the line.
    Blanks,
    /// Also the style of quotes, dashes and spaces.
    Style,
}

const LIKENESSES: [Likeness; 4] = [Likeness::Exact, Likeness::End, Likeness::Blanks, Likeness::Style];

/// Returns the file with all hunks applied. Lines outside of them keep their bytes, and so do the lines that a hunk repeats.
///
/// # Errors
/// Returns an error if a hunk has no place in the file, or several.
pub(super) fn apply(path: &str, file: &[u8], hunks: &[Hunk]) -> Result<Vec<u8>, PatchError> {
    let (mark, text) = match file.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (BYTE_ORDER_MARK, text),
        None => (&[][..], file),
    };
    let lines: Vec<FileLine<'_>> = text.split_inclusive(|byte| *byte == b'\n').map(FileLine::of).collect();
    let mut index = Index::new(&lines);
    let mut out: Vec<OutLine<'_>> = Vec::with_capacity(lines.len());
    let mut done = 0;
    for (number, hunk) in (1..).zip(hunks) {
        let search = Search { path, number, hunk, from: done };
        let at = search.place(&mut index)?;
        out.extend(lines.get(done..at).unwrap_or_default().iter().map(OutLine::unchanged));
        let old = hunk.lines.iter().filter_map(Line::old).count();
        let end = line_end(&lines, at, old);
        let mut next = at;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    out.extend(lines.get(next).map(OutLine::unchanged));
                    next += 1;
                }
                Line::Remove(_) => next += 1,
                Line::Add(text) => out.push(OutLine { text: text.as_bytes(), end }),
            }
        }
        done = next;
    }
    out.extend(lines.get(done..).unwrap_or_default().iter().map(OutLine::unchanged));
    Ok(joined(mark, &lines, &out))
}

/// Joins the lines. The last line has a line end if that of the old file had one.
fn joined(mark: &[u8], lines: &[FileLine<'_>], out: &[OutLine<'_>]) -> Vec<u8> {
    let ends = lines.last().is_none_or(|last| !last.end.is_empty());
    let mut bytes = mark.to_vec();
    for (number, line) in (1..).zip(out) {
        bytes.extend_from_slice(line.text);
        if number < out.len() || ends {
            let usual = || line_end(lines, lines.len(), 0);
            bytes.extend_from_slice(if line.end.is_empty() { usual() } else { line.end });
        }
    }
    bytes
}

struct FileLine<'a> {
    text: &'a [u8],
    end: &'a [u8],
}

impl<'a> FileLine<'a> {
    fn of(line: &'a [u8]) -> Self {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = if text.len() < line.len() { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
        Self { text, end: line.get(text.len()..).unwrap_or_default() }
    }
}

struct OutLine<'a> {
    text: &'a [u8],
    end: &'a [u8],
}

impl<'a> OutLine<'a> {
    fn unchanged(line: &FileLine<'a>) -> Self {
        Self { text: line.text, end: line.end }
    }
}

/// Returns the line end of new lines in place of `count` lines at `at`: that of these lines, of the line before, of the line
/// after, or `\n`.
fn line_end<'a>(lines: &[FileLine<'a>], at: usize, count: usize) -> &'a [u8] {
    let replaced = lines.get(at..at + count).unwrap_or_default().iter();
    // Only the last line of a file can be without a line end.
    let before = lines.get(..at).unwrap_or_default().iter().rev().take(2);
    let after = lines.get(at + count..).unwrap_or_default().iter().take(1);
    let found = replaced.chain(before).chain(after).map(|line| line.end).find(|end| !end.is_empty());
    found.unwrap_or(b"\n")
}

/// The lines of a file as numbers, for each likeness: equal lines have equal numbers.
struct Index<'a> {
    lines: &'a [FileLine<'a>],
    by_likeness: BTreeMap<u8, Numbered<'a>>,
}

#[derive(Default)]
struct Numbered<'a> {
    numbers: BTreeMap<Cow<'a, [u8]>, usize>,
    file: Vec<usize>,
}

impl<'a> Index<'a> {
    fn new(lines: &'a [FileLine<'a>]) -> Self {
        Self { lines, by_likeness: BTreeMap::new() }
    }

    /// Returns all places at or after `from` where the file has the lines `wanted`, which are not empty.
    fn places(&mut self, wanted: &[&str], from: usize, likeness: Likeness) -> Vec<usize> {
        let lines = self.lines;
        let numbered = self.by_likeness.entry(likeness as u8).or_insert_with(|| {
            let mut numbered = Numbered::default();
            for line in lines {
                let next = numbered.numbers.len();
                let number = *numbered.numbers.entry(normal(line.text, likeness)).or_insert(next);
                numbered.file.push(number);
            }
            numbered
        });
        let number = |text: &&str| numbered.numbers.get(&normal(text.as_bytes(), likeness)).copied();
        let Some(wanted) = wanted.iter().map(number).collect::<Option<Vec<usize>>>() else {
            return Vec::new();
        };
        occurrences(numbered.file.get(from..).unwrap_or_default(), &wanted)
            .into_iter()
            .map(|at| at + from)
            .collect()
    }
}

/// Returns all positions of `wanted` in `list`, by the algorithm of Knuth, Morris and Pratt, which takes linear time.
fn occurrences(list: &[usize], wanted: &[usize]) -> Vec<usize> {
    let advance = |table: &[usize], mut state: usize, item: usize| {
        while state > 0 && wanted.get(state) != Some(&item) {
            state = table.get(state - 1).copied().unwrap_or_default();
        }
        if wanted.get(state) == Some(&item) { state + 1 } else { 0 }
    };
    let mut table = vec![0; wanted.len().min(1)];
    for item in wanted.iter().skip(1) {
        let state = advance(&table, table.last().copied().unwrap_or_default(), *item);
        table.push(state);
    }
    let mut found = Vec::new();
    let mut state = 0;
    for (at, item) in list.iter().enumerate() {
        state = advance(&table, state, *item);
        if state == wanted.len() {
            found.push(at + 1 - state);
            state = table.last().copied().unwrap_or_default();
        }
    }
    found
}

fn normal(line: &[u8], likeness: Likeness) -> Cow<'_, [u8]> {
    let text = match (likeness, std::str::from_utf8(line)) {
        (Likeness::Exact, _) => return Cow::Borrowed(line),
        (_, Ok(text)) => Cow::Borrowed(text),
        (_, Err(_)) => String::from_utf8_lossy(line),
    };
    let trimmed = |text: &str| match likeness {
        Likeness::Exact | Likeness::End => text.trim_end().to_owned(),
        Likeness::Blanks => text.trim().to_owned(),
        Likeness::Style => text.chars().map(crate::text::plain).collect::<String>().trim().to_owned(),
    };
    Cow::Owned(trimmed(&text).into_bytes())
}

/// The search for one hunk, in the lines after those of the hunk before.
struct Search<'a> {
    path: &'a str,
    number: usize,
    hunk: &'a Hunk,
    from: usize,
}

impl Search<'_> {
    fn place(&self, index: &mut Index<'_>) -> Result<usize, PatchError> {
        let wanted: Vec<&str> = self.hunk.lines.iter().filter_map(Line::old).collect();
        // The lines after which the hunk can begin.
        let mut starts = vec![self.from];
        for context in &self.hunk.contexts {
            starts = self.contexts(index, context, &starts)?;
        }
        let places = if wanted.is_empty() {
            self.insertions(index, &starts)
        } else {
            self.matches(index, &wanted, &starts)
        };
        match places.as_slice() {
            [one] => Ok(*one),
            [] => Err(self.not_found(index, &wanted, starts.first().copied().unwrap_or_default())),
            many => {
                let lines: Vec<String> = many.iter().take(10).map(|at| (at + 1).to_string()).collect();
                let (path, hunk) = (self.path.to_owned(), self.number);
                Err(PatchError::Ambiguous { path, hunk, count: many.len(), lines: lines.join(", ") })
            }
        }
    }

    /// Returns the lines behind each line of `@@` that follows one of `starts` first.
    fn contexts(
        &self,
        index: &mut Index<'_>,
        context: &str,
        starts: &[usize],
    ) -> Result<Vec<usize>, PatchError> {
        let from = starts.first().copied().unwrap_or_default();
        for likeness in LIKENESSES {
            let found = index.places(&[context], from, likeness);
            if !found.is_empty() {
                return Ok(found.into_iter().map(|at| at + 1).collect());
            }
        }
        let hint = nearest(index.lines, context);
        let (path, context) = (self.path.to_owned(), head(context, MAX_LINE_BYTES).to_owned());
        Err(PatchError::ContextNotFound { path, hunk: self.number, context, after: from, hint })
    }

    /// Returns where new lines go that replace none: behind the line of `@@`, or to the end of the file.
    fn insertions(&self, index: &Index<'_>, starts: &[usize]) -> Vec<usize> {
        let end = index.lines.len();
        if self.hunk.contexts.is_empty() || self.hunk.at_end { vec![end] } else { starts.to_vec() }
    }

    /// Returns the places of the old lines. Behind a line of `@@` the nearest place counts, which may begin with that line.
    fn matches(&self, index: &mut Index<'_>, wanted: &[&str], starts: &[usize]) -> Vec<usize> {
        let named = usize::from(!self.hunk.contexts.is_empty());
        for likeness in LIKENESSES {
            let mut found = index.places(wanted, self.from, likeness);
            if self.hunk.at_end {
                found.retain(|at| at + wanted.len() == index.lines.len());
            }
            if named > 0 {
                let behind = |start: &usize| {
                    let first = found.partition_point(|at| at + named < *start);
                    found.get(first).copied()
                };
                let mut nearest: Vec<usize> = starts.iter().filter_map(behind).collect();
                nearest.dedup();
                found = nearest;
            }
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn not_found(&self, index: &Index<'_>, wanted: &[&str], after: usize) -> PatchError {
        let (path, hunk) = (self.path.to_owned(), self.number);
        let mut shown = "\n".to_owned();
        for line in wanted.iter().take(MAX_LINES) {
            shown.push_str(head(line, MAX_LINE_BYTES));
            shown.push('\n');
        }
        if wanted.len() > MAX_LINES {
            shown.push_str("...\n");
        }
        let line = wanted.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
        let mut hint = nearest(index.lines, line);
        if self.hunk.at_end {
            hint.push_str(" The hunk says `*** End of File`, so it must be the end of the file.");
        }
        PatchError::NotFound { path, hunk, wanted: shown, after, hint }
    }
}

/// The maximum number of lines that an error shows.
const MAX_LINES: usize = 12;

/// The maximum number of bytes of a line that an error shows.
const MAX_LINE_BYTES: usize = 200;

/// Returns the part of the file that is most similar to a line, or advice.
fn nearest(lines: &[FileLine<'_>], wanted: &str) -> String {
    let words = |text: &str| -> Vec<String> {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let parts = head(text, MAX_LINE_BYTES).split(|c: char| !is_part(c));
        parts.filter(|word| !word.is_empty()).take(40).map(str::to_owned).collect()
    };
    let wanted = words(wanted);
    let mut best = (0, 0);
    for (at, line) in lines.iter().enumerate() {
        let has = words(&String::from_utf8_lossy(line.text.get(..MAX_LINE_BYTES).unwrap_or(line.text)));
        let shared = wanted.iter().filter(|word| has.contains(word)).count();
        if shared > best.0 {
            best = (shared, at);
        }
    }
    let (shared, at) = best;
    if shared == 0 || shared * 2 < wanted.len() {
        return " Read the file again and copy the lines as they are there.".to_owned();
    }
    let from = at.saturating_sub(1);
    let mut hint = format!(" The nearest place is at line {}:", at + 1);
    for line in lines.iter().skip(from).take(MAX_LINES / 2) {
        hint.push('\n');
        hint.push_str(head(&String::from_utf8_lossy(line.text), MAX_LINE_BYTES));
    }
    hint
}
