//! The lines of the view of a call. Everything that a model chose stands behind a mark, in lines of limited width.

use std::fmt;

use serde_json::Value;

use super::printable::{self, Printable};

/// The maximum width of a part of a text or value in columns, so that a terminal does not break its line.
const WIDTH: usize = 64;

/// Writes a text in one line, and the rest of a long one behind a `+`.
pub(super) fn question(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    parts(f, "", "\n    + ", Printable::line(text).as_str())
}

/// Writes a fact of the call with its name, as [`question`] does.
pub(super) fn fact(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    write!(f, "\n  {name}")?;
    if printable::needs_escape(text) {
        parts(f, " (escaped): ", "\n    + ", &printable::escaped_line(text))
    } else {
        parts(f, ": ", "\n    + ", text)
    }
}

/// Writes an argument with its name.
pub(super) fn argument(f: &mut fmt::Formatter<'_>, name: &str, argument: &Value) -> fmt::Result {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(is_plain) {
        parts(f, "\n    ", "\n    + ", name)?;
    } else {
        parts(f, "\n    ", "\n    + ", Printable::line(&Value::from(name).to_string()).as_str())?;
    }
    if let Value::String(text) = argument
        && is_escaped(text)
    {
        f.write_str(" (escaped)")?;
    }
    f.write_str(":")?;
    value(f, argument)
}

/// Writes a text line by line, and any other value as JSON.
pub(super) fn value(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    let Value::String(text) = value else {
        return parts(f, "\n      = ", "\n      + ", Printable::line(&value.to_string()).as_str());
    };
    let escapes = is_escaped(text);
    for line in text.split('\n') {
        if escapes {
            parts(f, "\n      | ", "\n      + ", &printable::escaped_line(line))?;
        } else {
            parts(f, "\n      | ", "\n      + ", line)?;
        }
    }
    Ok(())
}

/// Returns whether a line of the text cannot be shown as it is.
fn is_escaped(text: &str) -> bool {
    text.split('\n').any(printable::needs_escape)
}

/// Writes a line in parts that fit the width: the first behind `start`, and the others behind `more`. A part ends behind a
/// blank, except in a word that is wider than a part. The parts together are the line.
fn parts(f: &mut fmt::Formatter<'_>, start: &str, more: &str, line: &str) -> fmt::Result {
    f.write_str(start)?;
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let visible: usize = word.strip_suffix(' ').unwrap_or(word).chars().map(width).sum();
        if column > 0 && column + visible > WIDTH && visible <= WIDTH {
            f.write_str(more)?;
            column = 0;
        }
        for (at, c) in word.char_indices() {
            // The blank behind a word needs no part of its own.
            let ends_word = c == ' ' && at > 0;
            if column + width(c) > WIDTH && !ends_word {
                f.write_str(more)?;
                column = 0;
            }
            column += width(c);
            write!(f, "{c}")?;
        }
    }
    Ok(())
}

/// Returns the columns of a character. Those outside of ASCII can be two columns wide.
fn width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}
