//! Finds the first difference between two JSON values and renders it for human readers.

#[cfg(test)]
mod tests;

use serde_json::Value;

/// How many equal lines are shown before and after a difference inside a text.
const CONTEXT: usize = 2;
/// The maximum number of characters that are shown of a line.
const MAX_LINE: usize = 200;
/// The maximum number of lines that are shown of each side.
const MAX_LINES: usize = 12;

/// Returns the JSON pointer of the first difference and the lines of both sides; `None` when the values are equal.
pub(super) fn first(then: &Value, now: &Value) -> Option<(String, String)> {
    let mut path = String::new();
    let (then, now) = find(Some(then), Some(now), &mut path)?;
    Some((path, lines(then, now)))
}

type Sides<'v> = (Option<&'v Value>, Option<&'v Value>);

fn find<'v>(then: Option<&'v Value>, now: Option<&'v Value>, path: &mut String) -> Option<Sides<'v>> {
    let length = path.len();
    match (then, now) {
        (Some(a), Some(b)) if a == b => None,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                path.push('/');
                path.push_str(&name.replace('~', "~0").replace('/', "~1"));
                if let Some(found) = find(a.get(name), b.get(name), path) {
                    return Some(found);
                }
                path.truncate(length);
            }
            None
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                path.push_str(&format!("/{index}"));
                if let Some(found) = find(a.get(index), b.get(index), path) {
                    return Some(found);
                }
                path.truncate(length);
            }
            None
        }
        sides => Some(sides),
    }
}

/// Renders both sides as lines. Equal lines around the difference are shown once, at most [`CONTEXT`] on each side.
pub(super) fn lines(then: Option<&Value>, now: Option<&Value>) -> String {
    let plain = |side: Option<&Value>| side.is_none_or(Value::is_string);
    let both = plain(then) && plain(now);
    let (then, now) = (text(then, both), text(now, both));
    let (a, b): (Vec<&str>, Vec<&str>) = (then.lines().collect(), now.lines().collect());
    let before = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let left = a.len().min(b.len()) - before;
    let after = a.iter().rev().zip(b.iter().rev()).take(left).take_while(|(x, y)| x == y).count();
    // Of two long lines, the part around the first different character is shown.
    let equal = match (a.get(before), b.get(before)) {
        (Some(x), Some(y)) => x.chars().zip(y.chars()).take_while(|(x, y)| x == y).count(),
        _ => 0,
    };
    let mut out = Vec::new();
    let mut push = |mark: &str, part: &[&str]| {
        let from = if mark == " " { 0 } else { equal };
        out.extend(part.iter().take(MAX_LINES).map(|line| format!("{mark} {}", short(line, from))));
        if part.len() > MAX_LINES {
            out.push(format!("{mark} ({} more lines)", part.len() - MAX_LINES));
        }
    };
    push(" ", a.get(before.saturating_sub(CONTEXT)..before).unwrap_or_default());
    push("-", a.get(before..a.len() - after).unwrap_or_default());
    push("+", b.get(before..b.len() - after).unwrap_or_default());
    push(" ", a.get(a.len() - after..(a.len() - after + CONTEXT).min(a.len())).unwrap_or_default());
    out.join("\n")
}

/// Renders a side: a string verbatim if `plain` is set, an absent value as "(nothing)", and any other value as JSON.
fn text(value: Option<&Value>, plain: bool) -> String {
    match value {
        None => "(nothing)".to_owned(),
        Some(Value::String(text)) if plain && !text.is_empty() => text.clone(),
        Some(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

/// Returns a line of at most [`MAX_LINE`] characters: the text around the character `at`.
fn short(line: &str, at: usize) -> String {
    if line.chars().count() <= MAX_LINE {
        return line.to_owned();
    }
    let from = at.saturating_sub(MAX_LINE / 4);
    let mut rest = line.chars().skip(from);
    let shown: String = rest.by_ref().take(MAX_LINE).collect();
    let (before, after) = (if from > 0 { "..." } else { "" }, if rest.next().is_some() { "..." } else { "" });
    format!("{before}{shown}{after}")
}
