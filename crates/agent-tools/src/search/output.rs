//! What the model sees of a search.

use std::fmt::Write as _;

use agent_core::ToolResult;
use serde_json::json;

use super::MAX_LINE_BYTES;
use crate::text;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// `path:line: text`, at most as many as are shown.
    pub(super) lines: Vec<String>,
    /// Whether there are more.
    pub(super) truncated: bool,
    /// Files that could not be read.
    pub(super) unreadable: usize,
}

impl Matches {
    pub(super) fn into_result(self, pattern: &str) -> ToolResult {
        let Self { lines, truncated, unreadable } = self;
        let shown = lines.len();
        let mut out = if shown == 0 {
            format!("No matches found for '{pattern}'")
        } else if truncated {
            format!("{}\n\n... (showing first {shown} matches)", lines.join("\n"))
        } else {
            format!("{}\n\n({shown} matches)", lines.join("\n"))
        };
        if unreadable > 0 {
            // Writing to a string cannot fail.
            let _ = write!(out, "\n({unreadable} files could not be read)");
        }
        let details = json!({"matches": shown, "truncated": truncated, "unreadable": unreadable});
        ToolResult::text(out).with_details(details)
    }
}

/// What is shown of a line that has its match at `place`: all of it or, when it is long, a part with the match.
pub(super) fn shown_line(line: &[u8], place: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    // A little of what stands before the match helps to understand it.
    let lead = MAX_LINE_BYTES / 5;
    let start = if place + lead < MAX_LINE_BYTES { 0 } else { character_start(line, place - lead) };
    // More than is shown, since bytes that are no text grow when they are made text.
    let part = line.get(start..line.len().min(start + MAX_LINE_BYTES + 4)).unwrap_or_default();
    let part = String::from_utf8_lossy(part);
    let shown = text::head(&part, MAX_LINE_BYTES);
    let before = if start > 0 { "... " } else { "" };
    let after = if start + MAX_LINE_BYTES < line.len() { " ... (line cut)" } else { "" };
    format!("{before}{shown}{after}")
}

/// The first place from `at` on where a character begins.
fn character_start(line: &[u8], at: usize) -> usize {
    (at..line.len()).take(4).find(|at| line.get(*at).is_some_and(|byte| byte & 0xC0 != 0x80)).unwrap_or(at)
}
