//! What the page of `edit_file` says, in the simplest way that it can be done.

use std::ops::Range;

/// What a call must come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The file is this now; `places` of the old one were replaced.
    Changed {
        file: Vec<u8>,
        places: Vec<Range<usize>>,
    },
    /// The edits were made, and nothing is different.
    Unchanged,
    Empty {
        edit: Option<usize>,
    },
    Nowhere {
        edit: Option<usize>,
    },
    Many {
        edit: Option<usize>,
        count: usize,
    },
    Overlap {
        first: usize,
        second: usize,
    },
}

/// A character as a reader sees it: which bytes it has, and which plain text it stands for.
#[derive(Debug, Clone)]
struct Seen {
    bytes: Range<usize>,
    text: String,
}

/// What the edits must make of the file.
pub(crate) fn predict(file: &[u8], edits: &[(String, String)]) -> Outcome {
    // The mark is not a part of the text; it is put back in front.
    let mark = if file.starts_with("\u{FEFF}".as_bytes()) { 3 } else { 0 };
    let text = &file[mark..];
    let mut found = Vec::new();
    for (index, (old, new)) in edits.iter().enumerate() {
        let edit = (edits.len() > 1).then_some(index + 1);
        let (old, new) = (unmarked(old), unmarked(new));
        if old.is_empty() {
            return Outcome::Empty { edit };
        }
        let mut places = everywhere(&seen(text), &seen(old.as_bytes()), false);
        if places.is_empty() {
            let (plain, trimmed) = styleless(&seen(old.as_bytes()), old.len());
            places = everywhere(&styleless(&seen(text), text.len()).0, &plain, trimmed);
        }
        match places.as_slice() {
            [] => return Outcome::Nowhere { edit },
            [place] => found.push((index + 1, place.clone(), old, new)),
            many => return Outcome::Many { edit, count: many.len() },
        }
    }
    found.sort_by_key(|(_, place, _, _)| (place.start, place.end));
    for pair in found.windows(2) {
        if pair[1].1.start < pair[0].1.end {
            let (a, b) = (pair[0].0, pair[1].0);
            return Outcome::Overlap { first: a.min(b), second: a.max(b) };
        }
    }
    let mut out = text.to_vec();
    for (_, place, old, new) in found.iter().rev() {
        out.splice(place.clone(), replacement(text, place, old, new));
    }
    let file_now = [&file[..mark], &out].concat();
    if file_now == file {
        return Outcome::Unchanged;
    }
    let places = found.iter().map(|(_, place, _, _)| place.start + mark..place.end + mark).collect();
    Outcome::Changed { file: file_now, places }
}

fn unmarked(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

/// The characters of a file. A line end is one of them, whichever kind it is; so is what is no UTF-8.
fn seen(bytes: &[u8]) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    let mut at = 0;
    let mut push = |all: &mut Vec<Seen>, text: String, len: usize| {
        all.push(Seen { bytes: at..at + len, text });
        at += len;
    };
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut all, c.to_string(), c.len_utf8());
            if let [.., cr, end] = all.as_mut_slice()
                && cr.text == "\r"
                && end.text == "\n"
                && cr.bytes.end == end.bytes.start
            {
                end.bytes.start = cr.bytes.start;
                let end = all.pop().unwrap();
                all.pop();
                all.push(end);
            }
        }
        if !chunk.invalid().is_empty() {
            push(&mut all, "\u{FFFD}".to_owned(), chunk.invalid().len());
        }
    }
    all
}

/// The characters without blanks at line ends and in their plain form, and whether blanks were taken from the very end.
fn styleless(all: &[Seen], len: usize) -> (Vec<Seen>, bool) {
    let is_blank = |seen: &Seen| matches!(seen.text.as_str(), " " | "\t");
    let plain: Vec<Seen> = all
        .iter()
        .map(|s| Seen { bytes: s.bytes.clone(), text: s.text.chars().map(plain).collect() })
        .collect();
    let mut kept = Vec::new();
    for (index, one) in plain.iter().enumerate() {
        let behind = plain[index..].iter().find(|s| !is_blank(s));
        if !is_blank(one) || behind.is_some_and(|s| s.text != "\n") {
            kept.push(one.clone());
        }
    }
    let trimmed = kept.last().map_or(0, |s| s.bytes.end) < len;
    (kept, trimmed)
}

/// The plain text for the characters that the cases are made of.
fn plain(c: char) -> String {
    match c {
        '‘' | '’' | '′' => "'",
        '“' | '”' | '«' | '»' => "\"",
        '–' | '—' | '‑' | '−' => "-",
        // Bytes that are put in at random can make the other spaces of this row.
        '\u{A0}' | '\u{2000}'..='\u{200A}' | '\u{3000}' => " ",
        'Ａ' => "A",
        '（' => "(",
        '…' => "...",
        'ﬁ' => "fi",
        'ﬃ' => "ffi",
        '½' => "1/2",
        '™' => "TM",
        '²' => "2",
        c => return c.to_string(),
    }
    .to_owned()
}

/// Every place of `file` that reads like `old`. One that has lost blanks at its end must end where a line does.
fn everywhere(file: &[Seen], old: &[Seen], ends_a_line: bool) -> Vec<Range<usize>> {
    let wanted: String = old.iter().map(|s| s.text.as_str()).collect();
    let mut places = Vec::new();
    if wanted.is_empty() {
        return places;
    }
    for first in 0..file.len() {
        let mut rest = wanted.as_str();
        for last in first..file.len() {
            match rest.strip_prefix(file[last].text.as_str()) {
                Some(less) => rest = less,
                None => break,
            }
            if rest.is_empty() {
                let is_end = file.get(last + 1).is_none_or(|next| next.text == "\n");
                if is_end || !ends_a_line {
                    places.push(file[first].bytes.start..file[last].bytes.end);
                }
                break;
            }
        }
    }
    places
}

/// The bytes for a place.
fn replacement(text: &[u8], place: &Range<usize>, old: &str, new: &str) -> Vec<u8> {
    if new.contains("\r\n") {
        return new.as_bytes().to_vec();
    }
    let was = lines(&text[place.clone()]);
    let old = old.replace("\r\n", "\n");
    let (old, new) = (lines(old.as_bytes()), lines(new.as_bytes()));
    // Lines that the edit only repeats, from the front and then from the back. A text that ended with a line of nothing but
    // blanks has found one line less than it has; then the place is replaced whole.
    let pairs = was.len() == old.len();
    let mut front = 0;
    while pairs && front < old.len() && front < new.len() && old[front] == new[front] {
        front += 1;
    }
    let mut back = 0;
    while pairs
        && back < old.len() - front
        && back < new.len() - front
        && old[old.len() - 1 - back] == new[new.len() - 1 - back]
    {
        back += 1;
    }
    let bytes = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
    let start = place.start + bytes(&was[..front]);
    let end = place.end - bytes(&was[was.len() - back..]);
    let crlf = has_crlf(text, start, end);
    let mut out = was[..front].concat();
    for line in &new[front..new.len() - back] {
        match line.strip_suffix(b"\n") {
            Some(line) if crlf => out.extend([line, b"\r\n"].concat()),
            _ => out.extend_from_slice(line),
        }
    }
    out.extend(was[was.len() - back..].concat());
    out
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The kind of the first line end that is replaced, else of the next, else of the one before.
fn has_crlf(text: &[u8], start: usize, end: usize) -> bool {
    let ends: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'\n').collect();
    let inside = ends.iter().find(|at| (start..end).contains(at));
    let behind = || ends.iter().find(|at| **at >= end);
    let before = || ends.iter().rfind(|at| **at < start);
    inside.or_else(behind).or_else(before).is_some_and(|at| *at > 0 && text[*at - 1] == b'\r')
}
