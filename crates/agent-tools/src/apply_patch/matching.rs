//! Finds the places of hunks in a file and replaces their lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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
pub(super) fn apply(
    path: &str,
    file: &[u8],
    hunks: &[Hunk],
    work: &mut Work<'_>,
) -> Result<Vec<u8>, PatchError> {
    let (mark, text) = match file.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (BYTE_ORDER_MARK, text),
        None => (&[][..], file),
    };
    let lines: Vec<FileLine<'_>> = text.split_inclusive(|byte| *byte == b'\n').map(FileLine::of).collect();
    let mut index = Index::new(path, &lines, work);
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

/// The comparisons of lines that the hunks of one patch may take: 64 million. Only files whose lines repeat very often take
/// more than a few for each line.
const MAX_STEPS: usize = 64 << 20;

/// The work that is left for the hunks of a patch.
pub(super) struct Work<'a> {
    left: usize,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Work<'a> {
    /// Returns the work for one patch, which ends when `is_cancelled` returns true.
    pub(super) fn new(is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { left: MAX_STEPS, is_cancelled }
    }

    fn spend(&mut self, path: &str, steps: usize) -> Result<(), PatchError> {
        if (self.is_cancelled)() {
            return Err(PatchError::Cancelled);
        }
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or_else(|| PatchError::TooMuchWork { path: path.to_owned() })?;
        Ok(())
    }
}

/// The lines of a file as numbers, for each likeness: equal lines have equal numbers.
struct Index<'a, 'w> {
    path: &'a str,
    lines: &'a [FileLine<'a>],
    by_likeness: BTreeMap<u8, Numbered<'a>>,
    work: &'a mut Work<'w>,
}

#[derive(Default)]
struct Numbered<'a> {
    numbers: BTreeMap<Cow<'a, [u8]>, usize>,
    file: Vec<usize>,
    /// The positions of all lines, those with the same number together and in the order of the file.
    positions: Vec<usize>,
    /// For each number, where its positions begin; and the end.
    starts: Vec<usize>,
}

impl<'a> Numbered<'a> {
    fn of(lines: &[FileLine<'a>], likeness: Likeness) -> Self {
        let mut numbered = Self::default();
        for line in lines {
            let next = numbered.numbers.len();
            let number = *numbered.numbers.entry(normal(line.text, likeness)).or_insert(next);
            numbered.file.push(number);
        }
        let mut positions: Vec<usize> = (0..lines.len()).collect();
        positions.sort_by_key(|at| numbered.file.get(*at).copied());
        let number_at = |at: &usize| numbered.file.get(*at).copied().unwrap_or_default();
        let mut starts = vec![0];
        for number in 0..numbered.numbers.len() {
            let from = starts.last().copied().unwrap_or_default();
            let rest = positions.get(from..).unwrap_or_default();
            starts.push(from + rest.partition_point(|at| number_at(at) <= number));
        }
        Self { positions, starts, ..numbered }
    }

    /// Returns the positions at or after `from` of the lines with a number.
    fn positions(&self, number: usize, from: usize) -> &[usize] {
        let (Some(start), Some(end)) = (self.starts.get(number), self.starts.get(number + 1)) else {
            return &[];
        };
        let all = self.positions.get(*start..*end).unwrap_or_default();
        all.get(all.partition_point(|at| *at < from)..).unwrap_or_default()
    }
}

impl<'a, 'w> Index<'a, 'w> {
    fn new(path: &'a str, lines: &'a [FileLine<'a>], work: &'a mut Work<'w>) -> Self {
        Self { path, lines, by_likeness: BTreeMap::new(), work }
    }

    /// Returns all places at or after `from` where the file has the lines `wanted`, which are not empty.
    fn places(&mut self, wanted: &[&str], from: usize, likeness: Likeness) -> Result<Vec<usize>, PatchError> {
        let lines = self.lines;
        self.work.spend(self.path, wanted.len())?;
        let numbered = match self.by_likeness.entry(likeness as u8) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.work.spend(self.path, lines.len())?;
                new.insert(Numbered::of(lines, likeness))
            }
        };
        let number = |text: &&str| numbered.numbers.get(&normal(text.as_bytes(), likeness)).copied();
        let Some(wanted) = wanted.iter().map(number).collect::<Option<Vec<usize>>>() else {
            return Ok(Vec::new());
        };
        // The rarest of the lines has the fewest places to look at.
        let candidates =
            wanted.iter().enumerate().map(|(at, number)| (numbered.positions(*number, from), at));
        let (positions, offset) = candidates.min_by_key(|(positions, _)| positions.len()).unwrap_or_default();
        let rest = numbered.file.get(from..).unwrap_or_default();
        let single = positions.len().saturating_mul(wanted.len());
        if single <= rest.len() + wanted.len() {
            self.work.spend(self.path, single)?;
            let starts = positions.iter().filter_map(|at| at.checked_sub(offset)).filter(|at| *at >= from);
            return Ok(starts
                .filter(|at| numbered.file.get(*at..at + wanted.len()) == Some(wanted.as_slice()))
                .collect());
        }
        self.work.spend(self.path, rest.len() + wanted.len())?;
        Ok(occurrences(rest, &wanted).into_iter().map(|at| at + from).collect())
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
    fn place(&self, index: &mut Index<'_, '_>) -> Result<usize, PatchError> {
        let wanted: Vec<&str> = self.hunk.lines.iter().filter_map(Line::old).collect();
        // The lines after which the hunk can begin.
        let mut starts = vec![self.from];
        for context in &self.hunk.contexts {
            starts = self.contexts(index, context, &starts)?;
        }
        let places = if wanted.is_empty() {
            self.insertions(index, &starts)
        } else {
            self.matches(index, &wanted, &starts)?
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
        index: &mut Index<'_, '_>,
        context: &str,
        starts: &[usize],
    ) -> Result<Vec<usize>, PatchError> {
        let from = starts.first().copied().unwrap_or_default();
        for likeness in LIKENESSES {
            let found = index.places(&[context], from, likeness)?;
            if !found.is_empty() {
                return Ok(found.into_iter().map(|at| at + 1).collect());
            }
        }
        let hint = nearest(index.lines, context);
        let (path, context) = (self.path.to_owned(), head(context, MAX_LINE_BYTES).to_owned());
        Err(PatchError::ContextNotFound { path, hunk: self.number, context, after: from, hint })
    }

    /// Returns where new lines go that replace none: behind the line of `@@`, or to the end of the file.
    fn insertions(&self, index: &Index<'_, '_>, starts: &[usize]) -> Vec<usize> {
        let end = index.lines.len();
        if self.hunk.contexts.is_empty() || self.hunk.at_end { vec![end] } else { starts.to_vec() }
    }

    /// Returns the places of the old lines. Behind a line of `@@` the nearest place counts, which may begin with that line.
    fn matches(
        &self,
        index: &mut Index<'_, '_>,
        wanted: &[&str],
        starts: &[usize],
    ) -> Result<Vec<usize>, PatchError> {
        let named = usize::from(!self.hunk.contexts.is_empty());
        for likeness in LIKENESSES {
            let mut found = index.places(wanted, self.from, likeness)?;
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
                return Ok(found);
            }
        }
        Ok(Vec::new())
    }

    fn not_found(&self, index: &Index<'_, '_>, wanted: &[&str], after: usize) -> PatchError {
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
