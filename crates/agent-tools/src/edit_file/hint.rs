//! What may have been meant by a text that is not in the file (REQ-101).

use crate::text;

/// The most lines of a hint.
const MAX_LINES: usize = 20;

/// The most bytes of one line of a hint.
const MAX_LINE_BYTES: usize = 300;

/// A block that shows the lines of the file that are most like `old`, or a tip when none is.
pub(super) fn similar(file: &[u8], old: &str) -> String {
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

/// The first line that holds `wanted`, else the line that shares the most words with it, at least half of them.
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

/// How many words of the wanted line are compared.
const MAX_WORDS: usize = 40;

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
