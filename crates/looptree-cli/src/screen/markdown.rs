//! Markdown that arrives in pieces: whole lines are rendered, tables as a whole.

use std::borrow::Cow;

use termimad::crossterm::style::{Attribute, Color};
use termimad::{CompoundStyle, MadSkin};

use super::{Screen, Style, Styled};
use crate::text::wrap;

/// The maximum number of bytes of a line or a table that is rendered, and that a terminal waits for: 16 KiB. The work for the
/// marks of a line, and for each further piece of it, grows with its length.
const MAX_RENDERED: usize = 16 << 10;

/// The text of a reply that is not shown yet.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    pending: String,
    /// The rows of a table that is not complete.
    table: String,
    in_code: bool,
}

impl Markdown {
    /// Adds a piece and returns the lines that it completes.
    pub(super) fn push(&mut self, piece: &str, screen: &Screen) -> Styled {
        let known = self.pending.len();
        self.pending.push_str(piece);
        let end = match piece.rfind('\n') {
            Some(at) => known + at + 1,
            None if screen.live && self.pending.len() > MAX_RENDERED => self.pending.len(),
            None => return Styled::default(),
        };
        let rest = self.pending.split_off(end);
        let lines = std::mem::replace(&mut self.pending, rest);
        Styled::rendered(lines.lines().map(|line| self.line(line, screen)).collect())
    }

    /// Returns the rest of the text.
    pub(super) fn end(&mut self, screen: &Screen) -> Styled {
        let last = std::mem::take(&mut self.pending);
        let mut shown = if last.is_empty() { String::new() } else { self.line(&last, screen) };
        shown.push_str(&self.end_table(screen));
        self.in_code = false;
        Styled::rendered(shown)
    }

    /// Returns the end of the line that is being written.
    pub(super) fn unfinished(&self) -> &str {
        let start = self.pending.ceil_char_boundary(self.pending.len().saturating_sub(MAX_RENDERED));
        self.pending.get(start..).unwrap_or_default()
    }

    fn line(&mut self, line: &str, screen: &Screen) -> String {
        // Escaped before the renderer sees it, so that every code of a style is the renderer's.
        let escaped = Styled::prose(line.trim_end());
        let line = escaped.as_str();
        if !screen.live {
            return format!("{line}\n");
        }
        if line.trim_start().starts_with("```") {
            self.in_code = !self.in_code;
            return self.end_table(screen);
        }
        if self.in_code {
            return format!("  {}\n", screen.paint(Style::Cyan, &escaped).as_str());
        }
        if line.trim_start().starts_with('|') && self.table.len() + line.len() < MAX_RENDERED {
            self.table.push_str(line);
            self.table.push('\n');
            return String::new();
        }
        let shown = self.end_table(screen);
        format!("{shown}{}", rendered(line, screen))
    }

    fn end_table(&mut self, screen: &Screen) -> String {
        let table = std::mem::take(&mut self.table);
        if table.is_empty() {
            return table;
        }
        let shown = rendered(table.trim_end(), screen);
        let mut words = table.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        if words.all(|word| shown.contains(word)) { shown } else { listed(&table, screen) }
    }
}

/// Renders a table that is too narrow for its words as one list for each row.
fn listed(table: &str, screen: &Screen) -> String {
    let is_rule = |row: &&str| row.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '));
    let cells = |row: &str| -> Vec<String> {
        row.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows = table.lines().filter(|row| !is_rule(row)).map(cells);
    let head = rows.next().unwrap_or_default();
    let mut shown = String::new();
    for row in rows {
        for (n, cell) in row.iter().enumerate() {
            let line = match head.get(n).filter(|name| !name.is_empty()) {
                Some(name) => format!("{name}: {cell}"),
                None => cell.clone(),
            };
            let body = skin(screen)
                .text(&links(&line), Some(screen.text_width().saturating_sub(2).max(8)))
                .to_string();
            for (at, line) in body.trim_end_matches('\n').lines().enumerate() {
                let lead = if n == 0 && at == 0 { "• " } else { "  " };
                shown.push_str(&format!("{lead}{}\n", line.trim_end()));
            }
        }
    }
    if shown.is_empty() { rendered(&head.join(", "), screen) } else { shown }
}

/// The characters of a link's text, and of its address, that are searched for its end.
const MAX_LINK: usize = 2_000;

/// Replaces the links of a text, `[text](url)` and `![text](url)`, by the text and the address behind it. The renderer has no links,
/// and an address is always shown: a terminal that hides it would hide where a link of the model leads.
fn links(text: &str) -> Cow<'_, str> {
    if !text.contains("](") {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['[', '`', '\\']) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        // What is code or escaped is no link.
        let code = from.strip_prefix('`').and_then(|code| code.find('`')).map(|end| end + 2);
        let escaped = from.starts_with('\\').then(|| from.chars().take(2).map(char::len_utf8).sum());
        if let Some(length) = code.or(escaped) {
            let (whole, after) = from.split_at_checked(length).unwrap_or((from, ""));
            shown.push_str(whole);
            rest = after;
            continue;
        }
        // Behind a name it is an index and a call.
        let is_index = shown.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ')' | ']'));
        match link(from).filter(|_| !is_index) {
            Some((label, url, after)) => {
                // The mark of an image.
                if shown.ends_with('!') {
                    shown.pop();
                }
                // The address is no markup.
                let url = if url.contains(['*', '~']) { format!("`{url}`") } else { url.to_owned() };
                match label.trim() {
                    "" => shown.push_str(&url),
                    label if label == url => shown.push_str(&url),
                    label => shown.push_str(&format!("{label} ({url})")),
                }
                rest = after;
            }
            None => {
                let mut chars = from.chars();
                shown.extend(chars.next());
                rest = chars.as_str();
            }
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Splits a text that begins with a link: its text, its address without a title, and what follows.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let inside = text.strip_prefix('[')?;
    let mut depth = 1_usize;
    let end = inside.char_indices().take(MAX_LINK).find_map(|(at, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    let (label, after) = inside.split_at(end);
    let target = after.strip_prefix("](")?;
    let mut depth = 1_usize;
    let end = target.char_indices().take(MAX_LINK).find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    let (address, after) = target.split_at(end);
    let address = address.split_whitespace().next().unwrap_or_default();
    let address = address.strip_prefix('<').and_then(|inner| inner.strip_suffix('>')).unwrap_or(address);
    (!address.is_empty() && !address.contains('`')).then_some(())?;
    Some((label, address, after.strip_prefix(')')?))
}

/// Numbered points are no lists for the renderer, which would not indent their further lines.
fn numbered(line: &str) -> Option<(&str, &str)> {
    let start = line.len() - line.trim_start().len();
    let digits = line.trim_start().chars().take_while(char::is_ascii_digit).count();
    let end = start + digits;
    let rest = line.get(end..)?;
    let text = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "))?;
    (digits > 0).then_some((line.get(..end + 2)?, text))
}

fn rendered(text: &str, screen: &Screen) -> String {
    let width = screen.text_width();
    if text.len() > MAX_RENDERED {
        return wrap(text, width).join("\n") + "\n";
    }
    let text = &links(text);
    let skin = skin(screen);
    if let Some((number, text)) = numbered(text) {
        let inner = width.saturating_sub(number.len()).max(8);
        let body = skin.text(text, Some(inner)).to_string();
        let mut shown = String::new();
        for (n, line) in body.trim_end_matches('\n').lines().enumerate() {
            let lead = if n == 0 { number.to_owned() } else { " ".repeat(number.len()) };
            shown.push_str(&format!("{lead}{}\n", line.trim_end()));
        }
        return shown;
    }
    if text.is_empty() {
        return "\n".to_owned();
    }
    let shown = skin.text(text, Some(width)).to_string();
    let mut out = String::new();
    for line in shown.trim_end_matches('\n').lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    // What the renderer makes nothing of is shown as it is.
    if out.is_empty() { wrap(text, width).join("\n") + "\n" } else { out }
}

fn skin(screen: &Screen) -> MadSkin {
    if !screen.colors {
        return MadSkin::no_style();
    }
    let mut skin = MadSkin::no_style();
    for header in &mut skin.headers {
        header.compound_style = CompoundStyle::with_attr(Attribute::Bold);
    }
    skin.bold = CompoundStyle::with_attr(Attribute::Bold);
    skin.italic = CompoundStyle::with_attr(Attribute::Italic);
    skin.strikeout = CompoundStyle::with_attr(Attribute::CrossedOut);
    skin.inline_code = CompoundStyle::with_fg(Color::DarkCyan);
    skin
}

#[cfg(test)]
mod tests;
