//! Text for a terminal or an approval: what a screen does not show, or what changes how it shows the rest, is escaped.

#[cfg(test)]
mod tests;

use std::fmt;

/// Letters and symbols that are drawn as nothing or as a blank, although Unicode counts them as visible.
const BLANKS: [char; 11] = [
    '\u{115f}',
    '\u{1160}',
    '\u{17b4}',
    '\u{17b5}',
    '\u{2800}',
    '\u{3164}',
    '\u{ffa0}',
    '\u{fffc}',
    '\u{13441}',
    '\u{13442}',
    '\u{1d159}',
];

/// The combining marks that prose may have on one letter. More of them cover the lines above and below.
const MAX_MARKS: usize = 3;

/// Text in which every character is visible, for a terminal or an approver.
///
/// Control characters, ends of lines, unusual blanks, direction marks, invisible characters, characters without a known form and
/// combining marks become escapes such as `\u{202e}`. A backslash before such an escape, or before a text that looks like one, is
/// doubled, so two different texts never look the same. Letters that look like others are not recognized.
///
/// ```
/// use agent_core::event::Printable;
/// assert_eq!(Printable::line("ls -l 'ä' \\d").as_str(), "ls -l 'ä' \\d");
/// assert_eq!(Printable::line("a\u{1b}[2K\u{a0}b").as_str(), r"a\u{1b}[2K\u{a0}b");
/// assert_eq!(Printable::line(r"a\u{1b}[2K").as_str(), r"a\\u{1b}[2K");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Printable(String);

impl Printable {
    /// Escapes a name, a path, a command or another text that takes one line. The ends of lines and tabs are escaped as well. Use it
    /// for everything that an approver decides about.
    #[must_use]
    pub fn line(text: &str) -> Self {
        Self(escaped(text, in_line))
    }

    /// Escapes prose of several lines. Ends of lines remain, a tab becomes four blanks, and up to three combining marks of a letter
    /// and the joiners inside of emoji remain, which approvals escape.
    #[must_use]
    pub fn prose(text: &str) -> Self {
        Self(escaped(text, in_prose))
    }

    /// Returns the escaped text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Printable> for String {
    fn from(text: Printable) -> Self {
        text.0
    }
}

/// How a character is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    AsItIs,
    As(&'static str),
    Escaped,
}

/// Shows each character as `shown` says. Its arguments are the text before the character, the character, and the text behind it.
fn escaped(text: &str, shown: impl Fn(&str, char, &str) -> Shown) -> String {
    let mut out = String::with_capacity(text.len());
    // The backslashes directly before the character.
    let mut slashes = 0;
    for (at, c) in text.char_indices() {
        if c == '\\' {
            slashes += 1;
            out.push(c);
            continue;
        }
        let after = text.get(at + c.len_utf8()..).unwrap_or_default();
        let shown = shown(text.get(..at).unwrap_or_default(), c, after);
        // An escape has an odd number of backslashes, and what only looks like one has an even number.
        if shown == Shown::Escaped || (c == 'u' && after.starts_with('{')) {
            out.extend(std::iter::repeat_n('\\', slashes));
        }
        slashes = 0;
        match shown {
            Shown::AsItIs => out.push(c),
            Shown::As(text) => out.push_str(text),
            Shown::Escaped => out.extend(c.escape_unicode()),
        }
    }
    out
}

fn in_line(_: &str, c: char, _: &str) -> Shown {
    if is_hidden(c) { Shown::Escaped } else { Shown::AsItIs }
}

fn in_prose(before: &str, c: char, after: &str) -> Shown {
    let is_kept = match c {
        '\t' => return Shown::As("    "),
        '\r' if after.starts_with('\n') => return Shown::As(""),
        '\n' => true,
        c if !is_hidden(c) => true,
        '\u{200d}' => {
            let joined = before.strip_suffix('\u{fe0f}').unwrap_or(before);
            joined.ends_with(is_emoji) && after.starts_with(is_emoji)
        }
        '\u{fe0f}' => {
            before.ends_with(is_emoji) || (before.ends_with(is_key) && after.starts_with('\u{20e3}'))
        }
        '\u{20e3}' => before.strip_suffix('\u{fe0f}').is_some_and(|key| key.ends_with(is_key)),
        c => is_visible_mark(c) && follows_letter(before),
    };
    if is_kept { Shown::AsItIs } else { Shown::Escaped }
}

/// Returns whether a text ends with a letter and fewer marks than a letter may have.
fn follows_letter(before: &str) -> bool {
    let mut marks = 0;
    for c in before.chars().rev() {
        match c {
            c if !is_hidden(c) => return c.is_alphanumeric(),
            c if is_visible_mark(c) && marks + 1 < MAX_MARKS => marks += 1,
            _ => return false,
        }
    }
    false
}

/// Returns whether a character is a combining mark that is drawn.
fn is_visible_mark(c: char) -> bool {
    let is_drawn = !matches!(
        c,
        '\u{34f}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{13440}'..='\u{13455}'
            | '\u{16fe4}' | '\u{1bc9d}' | '\u{e0100}'..='\u{e01ef}'
    );
    // In a text, `escape_debug` escapes a mark only if it is the first character.
    is_drawn && !BLANKS.contains(&c) && String::from_iter(['a', c]).escape_debug().nth(1) == Some(c)
}

/// Returns whether a character is a picture, or can be drawn as one, as in the ranges of `Extended_Pictographic`.
fn is_emoji(c: char) -> bool {
    matches!(
        c,
        '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}'
            | '\u{24c2}' | '\u{25a0}'..='\u{27bf}' | '\u{2934}' | '\u{2935}' | '\u{2b00}'..='\u{2bff}' | '\u{3030}' | '\u{303d}'
            | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}'
    )
}

/// Returns whether a character is on a keypad, so that a keycap can follow.
fn is_key(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// Returns whether a line of a call cannot be shown as it is: it has a hidden character, or ends with a blank.
pub(super) fn needs_escape(line: &str) -> bool {
    line.ends_with(' ') || line.chars().any(is_hidden)
}

/// Returns a line of a call with hidden characters and the last blank escaped, and with every backslash doubled. The view marks such a
/// text, so that it cannot be taken for one that has these backslashes.
pub(super) fn escaped_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let (line, end) = line.strip_suffix(' ').map_or((line, ""), |line| (line, "\\u{20}"));
    for c in line.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out + end
}

/// Returns whether a character is not drawn, or changes how others are drawn. This is the one table of such characters.
fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        // `escape_debug` escapes what Unicode counts as not printable, and marks that change the character before them.
        c => BLANKS.contains(&c) || c.escape_debug().len() > 1,
    }
}
