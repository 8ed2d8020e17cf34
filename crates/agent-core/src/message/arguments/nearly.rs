//! Reads arguments that are nearly JSON, as some servers and local models write them.
//!
//! Only a text that is not JSON comes here, so that valid arguments cost nothing. Two classes are read. The first is the same
//! arguments more than once: with an empty value (`null`, `{}`) in front or behind, whole again at the end, or each time as far
//! as they have arrived. The second is notation that can mean only one thing: line ends and tabs inside of strings, a code
//! fence, quotes and literals of Python, comments, commas at the end, and braces that are missing at the end.
//!
//! Nothing is guessed. A string or a number without its end may have lost a part, and two different objects may be two calls;
//! such texts stay errors.

use std::fmt::Write as _;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

#[cfg(test)]
mod tests;

/// The most places at which the last of several repeated texts is searched for.
const MAX_PLACES: usize = 256;

/// Returns the object that the text means as JSON, or `None` if the text may mean anything else.
pub(super) fn object(text: &str) -> Option<String> {
    let text = unfenced(text.trim_start_matches('\u{feff}').trim());
    if let Some(json) = one_of_several(text).or_else(|| last_so_far(text)) {
        return Some(json.to_owned());
    }
    if !text.starts_with('{') {
        return None;
    }
    Reader { rest: text, out: String::with_capacity(text.len() + 16), open: Vec::new() }.object()
}

/// Returns the text inside of a code fence, or the text itself.
fn unfenced(text: &str) -> &str {
    let Some(inside) = text.strip_prefix("```") else { return text };
    let inside = inside.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    inside.trim().strip_suffix("```").unwrap_or(inside).trim()
}

/// Returns the only object among several values of which the others are empty or equal to it.
fn one_of_several(text: &str) -> Option<&str> {
    let mut found: Option<(&str, Value)> = None;
    for raw in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let raw = raw.ok()?.get();
        let value: Value = serde_json::from_str(raw).ok()?;
        let empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(_) | Value::Number(_) => return None,
        };
        match &found {
            _ if empty => {}
            Some((_, first)) if *first == value => {}
            None if value.is_object() => found = Some((raw, value)),
            _ => return None,
        }
    }
    match found {
        Some((json, _)) => Some(json),
        // Nothing but empty values.
        None => (!text.is_empty()).then_some("{}"),
    }
}

/// Returns the last part of a text that consists of an object's beginnings, each as far as it had arrived, and the object.
fn last_so_far(text: &str) -> Option<&str> {
    let places = || text.match_indices('{').map(|(at, _)| at).filter(|at| *at > 0);
    let last = |at: usize| {
        let (before, whole) = text.split_at_checked(at)?;
        let fits = is_beginnings(before, whole) && serde_json::from_str::<IgnoredAny>(whole).is_ok();
        fits.then_some(whole)
    };
    text.starts_with('{').then(|| places().take(MAX_PLACES).find_map(last))?
}

/// Returns whether a text consists of beginnings of `whole`.
fn is_beginnings(text: &str, whole: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let same = rest.bytes().zip(whole.bytes()).take_while(|(a, b)| a == b).count();
        if same == rest.len() {
            return true;
        }
        // The next beginning starts with the first byte of the object, after at least one byte of this one.
        let next = rest.as_bytes().get(1..=same).and_then(|bytes| bytes.iter().rposition(|b| *b == b'{'));
        match next.and_then(|at| rest.get(at + 1..)) {
            Some(next) => rest = next,
            None => return false,
        }
    }
    true
}

/// An object or a list that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    List,
}

impl Level {
    fn end(self) -> char {
        match self {
            Self::Object => '}',
            Self::List => ']',
        }
    }
}

/// What the last token was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    /// A beginning, where a value, a key or the end may follow.
    Begin,
    /// A whole value, which shows its own end.
    Value,
    /// A number, of which digits may be missing at the end of the text.
    Number,
    /// The name of a member.
    Key,
    Colon,
    Comma,
}

/// Rewrites a text as JSON, token by token and without recursion.
struct Reader<'t> {
    rest: &'t str,
    out: String,
    open: Vec<Level>,
}

impl Reader<'_> {
    fn object(mut self) -> Option<String> {
        let mut last = Last::Begin;
        loop {
            self.skip_space()?;
            let Some(next) = self.rest.chars().next() else { break };
            last = match next {
                '{' | '[' if last != Last::Key => {
                    self.expect_value(last)?;
                    self.take(1);
                    self.out.push(next);
                    self.open.push(if next == '{' { Level::Object } else { Level::List });
                    Last::Begin
                }
                '}' | ']' => {
                    self.close(next, last)?;
                    Last::Value
                }
                ',' if matches!(last, Last::Value | Last::Number) => {
                    self.take(1);
                    Last::Comma
                }
                ':' if last == Last::Key => {
                    self.take(1);
                    self.out.push(':');
                    Last::Colon
                }
                _ => {
                    let is_key = self.open.last() == Some(&Level::Object) && last != Last::Colon;
                    self.expect_value(last)?;
                    self.token(next, is_key)?
                }
            };
            if self.open.is_empty() {
                return self.ended();
            }
        }
        // A beginning alone has no content, and the last token must be whole.
        if !matches!(last, Last::Value | Last::Comma) {
            return None;
        }
        while let Some(level) = self.open.pop() {
            self.out.push(level.end());
        }
        self.checked()
    }

    /// Writes the comma that separates a value from the one before it.
    fn expect_value(&mut self, last: Last) -> Option<()> {
        match last {
            Last::Begin | Last::Colon => Some(()),
            Last::Comma => {
                self.out.push(',');
                Some(())
            }
            Last::Value | Last::Number | Last::Key => None,
        }
    }

    /// Reads a string, a number, a literal or a bare name.
    fn token(&mut self, next: char, is_key: bool) -> Option<Last> {
        if matches!(next, '"' | '\'') {
            self.string(next)?;
            return Some(if is_key { Last::Key } else { Last::Value });
        }
        let len =
            self.rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$')));
        let (word, rest) = self.rest.split_at_checked(len.unwrap_or(self.rest.len()))?;
        self.rest = rest;
        if is_key {
            let is_name =
                !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
            self.out.push_str(&serde_json::to_string(word).ok().filter(|_| is_name)?);
            return Some(Last::Key);
        }
        let literal = match word {
            "true" | "True" => "true",
            "false" | "False" => "false",
            "null" | "None" | "NaN" | "nan" | "Infinity" | "-Infinity" | "undefined" => "null",
            number => {
                serde_json::from_str::<serde_json::Number>(number).ok()?;
                self.out.push_str(number);
                return Some(Last::Number);
            }
        };
        self.out.push_str(literal);
        Some(Last::Value)
    }

    /// Reads a string in these quotes. A character that JSON would escape stands for itself.
    fn string(&mut self, quote: char) -> Option<()> {
        self.out.push('"');
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => {
                    self.out.push('"');
                    self.take(at + c.len_utf8());
                    return Some(());
                }
                '"' => self.out.push_str("\\\""),
                '\\' => match chars.next()?.1 {
                    '\'' => self.out.push('\''),
                    c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => self.out.extend(['\\', c]),
                    'u' if is_hex(self.rest.get(at + 2..at + 6)) => self.out.push_str("\\u"),
                    // No escape, so the backslash stands for itself.
                    c => {
                        self.out.push_str("\\\\");
                        self.plain(c);
                    }
                },
                c => self.plain(c),
            }
        }
        None
    }

    /// Writes a character of a string.
    fn plain(&mut self, c: char) {
        match c {
            '\n' => self.out.push_str("\\n"),
            '\t' => self.out.push_str("\\t"),
            '\r' => self.out.push_str("\\r"),
            c if c.is_control() && c.is_ascii() && c != '\u{7f}' => {
                let _ = write!(self.out, "\\u{:04x}", u32::from(c));
            }
            c => self.out.push(c),
        }
    }

    /// Closes an object or a list, and lists inside of an object that were not closed.
    fn close(&mut self, end: char, last: Last) -> Option<()> {
        if matches!(last, Last::Key | Last::Colon) {
            return None;
        }
        self.take(1);
        while let Some(level) = self.open.pop() {
            self.out.push(level.end());
            if level.end() == end {
                return Some(());
            }
            if level == Level::Object {
                return None;
            }
        }
        None
    }

    /// Returns the object if nothing but closing braces follows it.
    fn ended(mut self) -> Option<String> {
        self.skip_space()?;
        let rest = self.rest.trim_end_matches("```").trim_end();
        if rest.chars().all(|c| matches!(c, '}' | ']' | ';') || c.is_whitespace()) {
            self.checked()
        } else {
            None
        }
    }

    /// Returns the written text if it is an object.
    fn checked(self) -> Option<String> {
        serde_json::from_str::<IgnoredAny>(&self.out).is_ok().then_some(self.out)
    }

    /// Skips spaces and comments. Returns `None` if a comment has no end.
    fn skip_space(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start();
            if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment.split_once("*/")?.1;
            } else if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
            } else {
                return Some(());
            }
        }
    }

    fn take(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

fn is_hex(digits: Option<&str>) -> bool {
    digits.is_some_and(|d| d.len() == 4 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}
