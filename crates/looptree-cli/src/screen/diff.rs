//! Unified diffs in color.

use super::{Screen, Style};
use crate::text::{more_lines, plain};

/// Lines of a diff that are shown at once.
const SHOWN: usize = 60;

/// Returns the lines of a unified diff, colored and indented; `limit` bounds their number.
pub(crate) fn lines(diff: &str, screen: &Screen, limit: Option<usize>) -> Vec<String> {
    let all: Vec<&str> = diff.lines().collect();
    let limit = limit.unwrap_or(SHOWN);
    let mut shown: Vec<String> = Vec::new();
    for line in all.iter().take(limit) {
        let style = match line.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Style::Dim,
            [b'+', ..] => Style::Green,
            [b'-', ..] => Style::Red,
            [b'@', ..] => Style::Cyan,
            _ => Style::Plain,
        };
        shown.push(format!("  {}", screen.paint(style, &plain(line))));
    }
    if all.len() > limit {
        shown.push(format!("  {}", screen.paint(Style::Dim, &more_lines(all.len() - limit))));
    }
    shown
}
