//! Escapes characters that a screen does not show, or that change how it shows others.

use std::borrow::Cow;

/// Letters and symbols that are drawn as nothing or as a blank, although Unicode counts them as visible.
const BLANKS: [char; 10] = [
    '\u{115f}',
    '\u{1160}',
    '\u{17b4}',
    '\u{17b5}',
    '\u{2800}',
    '\u{3164}',
    '\u{fffc}',
    '\u{13441}',
    '\u{13442}',
    '\u{1d159}',
];

/// Returns `text` with every control character, line end, invisible character, unusual blank, direction mark and
/// combining mark written as an escape such as `\n` or `\u{202e}`. All other characters, quotes and backslashes included,
/// are unchanged. Letters that look like others are not recognized.
///
/// ```
/// use agent_core::event::printable;
/// assert_eq!(printable("ls -l 'ä'"), "ls -l 'ä'");
/// assert_eq!(printable("a\u{1b}[2K\r\u{a0}b"), r"a\u{1b}[2K\r\u{a0}b");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut out, c));
    Cow::Owned(out)
}

fn push(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_hidden(c) => out.extend(c.escape_unicode()),
        c => out.push(c),
    }
}

/// Returns whether a line cannot be shown as it is: it has a hidden character, or ends with a blank.
pub(super) fn needs_escape(line: &str) -> bool {
    line.ends_with(' ') || line.chars().any(is_hidden)
}

/// Returns a line with hidden characters and the last blank escaped. Backslashes are doubled, so that two different lines
/// are different here, too.
pub(super) fn escaped_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let (line, end) = line.strip_suffix(' ').map_or((line, ""), |line| (line, "\\u{20}"));
    for c in line.chars() {
        if c == '\\' {
            out.push('\\');
        }
        push(&mut out, c);
    }
    out + end
}

fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\u{ffa0}' => true,
        // `escape_debug` escapes what Unicode counts as not printable, and marks that change the character before them.
        c => BLANKS.contains(&c) || c.escape_debug().len() > 1,
    }
}
