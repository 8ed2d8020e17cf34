//! Encodes values in paths, queries, headers and cookies, according to OpenAPI and RFC 6570.

use oas3::spec::ParameterStyle as Style;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// Whether a list or an object is written as one value or as several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Explode {
    One,
    Several,
}

/// The characters that are not percent-encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Letters, digits, `-`, `.`, `_`, `~`.
    Unreserved,
    /// Also the reserved characters that mean nothing in a query (`allowReserved`).
    Reserved,
}

/// All characters but letters, digits, `-`, `.`, `_` and `~`.
const BESIDE_UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same, without the reserved characters that have no meaning in a query. `#`, `&`, `[`, `]`, `+` and `'` are always
/// encoded: they end the query, begin another parameter, or are changed by servers on the way.
const BESIDE_RESERVED: &AsciiSet = &BESIDE_UNRESERVED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// The maximum depth of an object for `deepObject`. Deeper values are encoded as JSON.
const MAX_DEEP: usize = 8;

/// Percent-encodes a text.
pub(super) fn encoded(text: &str, keep: Keep) -> String {
    utf8_percent_encode(text, if keep == Keep::Reserved { BESIDE_RESERVED } else { BESIDE_UNRESERVED })
        .to_string()
}

/// Returns a value as text. A list or an object in the place of a single value becomes JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// The parts of a list or an object, without nulls as in RFC 6570.
enum Parts {
    Single(String),
    List(Vec<String>),
    Named(Vec<(String, String)>),
}

fn parts(value: &Value, write: &dyn Fn(&str) -> String) -> Option<Parts> {
    let one = |value: &Value| write(&plain(value));
    Some(match value {
        Value::Null => return None,
        Value::Array(items) => Parts::List(items.iter().filter(|item| !item.is_null()).map(one).collect()),
        Value::Object(fields) => {
            let there = fields.iter().filter(|(_, value)| !value.is_null());
            Parts::Named(there.map(|(name, value)| (write(name), one(value))).collect())
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => Parts::Single(one(value)),
    })
}

fn joined(named: &[(String, String)], inner: &str, outer: &str) -> String {
    let pairs: Vec<String> = named.iter().map(|(name, value)| format!("{name}{inner}{value}")).collect();
    pairs.join(outer)
}

/// Encodes a parameter in a path.
pub(super) fn in_path(name: &str, value: &Value, style: Style, explode: Explode) -> Option<String> {
    let write = |text: &str| encoded(text, Keep::Unreserved);
    let name = write(name);
    let several = explode == Explode::Several;
    let parts = parts(value, &write)?;
    Some(match (style, parts) {
        (Style::Label, Parts::Single(text)) => format!(".{text}"),
        (Style::Label, Parts::List(items)) => {
            format!(".{}", items.join(if several { "." } else { "," }))
        }
        (Style::Label, Parts::Named(named)) if several => format!(".{}", joined(&named, "=", ".")),
        (Style::Label, Parts::Named(named)) => format!(".{}", joined(&named, ",", ",")),
        (Style::Matrix, Parts::Single(text)) if text.is_empty() => format!(";{name}"),
        (Style::Matrix, Parts::Single(text)) => format!(";{name}={text}"),
        (Style::Matrix, Parts::List(items)) if several => {
            items.iter().map(|item| format!(";{name}={item}")).collect()
        }
        (Style::Matrix, Parts::List(items)) => format!(";{name}={}", items.join(",")),
        (Style::Matrix, Parts::Named(named)) if several => format!(";{}", joined(&named, "=", ";")),
        (Style::Matrix, Parts::Named(named)) => format!(";{name}={}", joined(&named, ",", ",")),
        (_, parts) => simple(parts, several),
    })
}

/// Encodes a parameter in a header. The caller checks its characters.
pub(super) fn in_header(value: &Value, explode: Explode) -> Option<String> {
    Some(simple(parts(value, &str::to_owned)?, explode == Explode::Several))
}

fn simple(parts: Parts, several: bool) -> String {
    match parts {
        Parts::Single(text) => text,
        Parts::List(items) => items.join(","),
        Parts::Named(named) => joined(&named, if several { "=" } else { "," }, ","),
    }
}

/// A percent-encoded `name=value`, and the decoded name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) text: String,
}

fn pair(name: &str, value: &str) -> Pair {
    Pair { name: name.to_owned(), text: format!("{}={value}", encoded(name, Keep::Unreserved)) }
}

/// Encodes a parameter in a query, a cookie or a form. Empty lists and nulls are omitted.
///
/// # Errors
/// Returns an error if the style cannot express the value.
pub(super) fn pairs(
    name: &str,
    value: &Value,
    style: Style,
    explode: Explode,
    keep: Keep,
) -> Result<Vec<Pair>, &'static str> {
    if style == Style::DeepObject && (value.is_object() || value.is_array()) {
        let mut out = Vec::new();
        deep(name, value, keep, MAX_DEEP, &mut out);
        return Ok(out);
    }
    let mark = match style {
        Style::SpaceDelimited => "%20",
        Style::PipeDelimited => "%7C",
        _ => ",",
    };
    // The mark between items must differ from the same character in an item.
    let write_item = |text: &str| match (mark, explode) {
        (",", Explode::One) => encoded(text, keep).replace(',', "%2C"),
        _ => encoded(text, keep),
    };
    let one = |items: &[String]| {
        if mark != "," && items.iter().any(|item| item.contains(mark)) {
            return Err("has an item with the character that stands between items");
        }
        Ok(if items.is_empty() { Vec::new() } else { vec![pair(name, &items.join(mark))] })
    };
    match (parts(value, &write_item), explode) {
        (None, _) => Ok(Vec::new()),
        (Some(Parts::Single(_)), _) => Ok(vec![pair(name, &encoded(&plain(value), keep))]),
        (Some(Parts::List(items)), Explode::Several) => {
            Ok(items.iter().map(|item| pair(name, item)).collect())
        }
        (Some(Parts::Named(_)), Explode::Several) => Ok(fields(value, keep)),
        (Some(Parts::List(items)), Explode::One) => one(&items),
        (Some(Parts::Named(named)), Explode::One) => {
            one(&named.into_iter().flat_map(|(name, value)| [name, value]).collect::<Vec<_>>())
        }
    }
}

/// Encodes the fields of an object, each under its own name.
fn fields(value: &Value, keep: Keep) -> Vec<Pair> {
    let fields = value.as_object().into_iter().flatten();
    let there = fields.filter(|(_, value)| !value.is_null());
    there.map(|(name, value)| pair(name, &encoded(&plain(value), keep))).collect()
}

/// Encodes `name[a][b]=value`. The items of lists are numbered.
fn deep(name: &str, value: &Value, keep: Keep, depth: usize, out: &mut Vec<Pair>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if depth > 0 => {
            for (key, value) in fields {
                deep(&format!("{name}[{key}]"), value, keep, depth - 1, out);
            }
        }
        Value::Array(items) if depth > 0 => {
            for (n, value) in items.iter().enumerate() {
                deep(&format!("{name}[{n}]"), value, keep, depth - 1, out);
            }
        }
        _ => out.push(pair(name, &encoded(&plain(value), keep))),
    }
}
