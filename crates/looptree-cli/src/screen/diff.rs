//! Unified diffs in color.

use super::{Screen, Style, Styled};
use crate::text::more_lines;

/// Lines of a diff that are shown at once.
const SHOWN: usize = 60;

/// Returns the lines of a unified diff without the names of files, colored and indented; `limit` bounds their number.
pub(crate) fn lines(diff: &str, screen: &Screen, limit: Option<usize>) -> Vec<Styled> {
    let count = diff.lines().count();
    let limit = limit.unwrap_or(SHOWN);
    // A carriage return before the end of a line is a part of the file, and is shown.
    let lines = diff.split_terminator('\n').take(limit).map(|line| {
        let style = match line.as_bytes() {
            [b'+', ..] => Style::Green,
            [b'-', ..] => Style::Red,
            [b'@', ..] => Style::Cyan,
            _ => Style::Plain,
        };
        Styled::from("  ") + screen.paint(style, Styled::row(line))
    });
    let mut shown: Vec<Styled> = lines.collect();
    if count > limit {
        shown.push(Styled::from("  ") + screen.paint(Style::Dim, more_lines(count - limit)));
    }
    shown
}
