//! Texts of models, tools and users on a terminal.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Returns the note about lines that are not shown.
pub(crate) fn more_lines(count: usize) -> String {
    format!("… {count} more {}", if count == 1 { "line" } else { "lines" })
}

/// Joins the messages of an error and its causes. A cause whose text the message already contains is not repeated.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The argument that tells the most about a call of a built-in tool.
const TELLING: [&str; 6] = ["command", "path", "pattern", "query", "name", "url"];

/// Returns the argument that tells the most about a call.
pub(crate) fn telling(arguments: &serde_json::Value) -> Option<&str> {
    TELLING.iter().find_map(|key| arguments.get(key)?.as_str())
}

/// Joins the lines of a text.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a text that takes at most `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut head = String::new();
    let mut width = 0;
    for c in text.chars() {
        width += c.width().unwrap_or(0);
        if width + 1 > columns {
            break;
        }
        head.push(c);
    }
    head.push('…');
    head
}

/// Returns the end of a text that takes at most `columns`.
pub(crate) fn tail(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut end: Vec<char> = Vec::new();
    let mut width = 1;
    for c in text.chars().rev() {
        width += c.width().unwrap_or(0);
        if width > columns {
            break;
        }
        end.push(c);
    }
    end.push('…');
    end.into_iter().rev().collect()
}

/// Breaks a line between words so that no part is wider than `columns`; a longer word is broken.
pub(crate) fn wrap(line: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut width = 0;
    for word in line.split_inclusive(' ') {
        let visible = word.trim_end().width();
        if width > 0 && width + visible > columns {
            lines.push(std::mem::take(&mut current).trim_end().to_owned());
            width = 0;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if width + wide > columns {
                if c == ' ' {
                    continue;
                }
                lines.push(std::mem::take(&mut current));
                width = 0;
            }
            current.push(c);
            width += wide;
        }
    }
    lines.push(current.trim_end().to_owned());
    lines
}

/// Breaks a line behind blanks, so that no row is wider than `columns`, and loses no character. A wider word is broken. Rows after
/// the first begin with `lead`. Codes of styles take no room.
pub(crate) fn fold(line: &str, columns: usize, lead: &str) -> Vec<String> {
    let columns = columns.max(8);
    let lead = if lead.width() * 2 > columns { "" } else { lead };
    let (mut rows, mut row, mut column) = (Vec::new(), String::new(), 0);
    let mut is_empty = true;
    for word in line.split_inclusive(' ') {
        let visible = visible_width(word.trim_end_matches(' '));
        if !is_empty && column + visible > columns && visible > 0 {
            rows.push(std::mem::replace(&mut row, lead.to_owned()));
            (column, is_empty) = (lead.width(), true);
        }
        let mut in_code = false;
        for c in word.chars() {
            let wide = if in_code || c == '\x1b' { 0 } else { c.width().unwrap_or(0) };
            in_code = c == '\x1b' || (in_code && c != 'm');
            // Blanks at the end of a row are not visible.
            if column + wide > columns && c != ' ' {
                rows.push(std::mem::replace(&mut row, lead.to_owned()));
                column = lead.width();
            }
            row.push(c);
            column += wide;
        }
        is_empty &= visible == 0;
    }
    rows.push(row);
    rows
}

/// Returns the columns of a text without the codes of its styles.
fn visible_width(text: &str) -> usize {
    let mut in_code = false;
    let widths = text.chars().map(|c| {
        let wide = if in_code || c == '\x1b' { 0 } else { c.width().unwrap_or(0) };
        in_code = c == '\x1b' || (in_code && c != 'm');
        wide
    });
    widths.sum()
}

/// A number of tokens in few characters.
pub(crate) fn tokens(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests;
