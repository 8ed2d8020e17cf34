//! Reads parameters back from a request.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::bodies;
use super::plan::{Param, Plan, Scheme};
use super::server::Request;

/// A value, as far as a style can express it.
#[derive(Debug, PartialEq)]
enum Seen {
    One(String),
    List(Vec<String>),
    Named(BTreeMap<String, String>),
}

/// Returns the arguments that are not sent as the description defines.
pub fn problems(plan: &Plan, root: &Value, arguments: &Map<String, Value>, request: &Request) -> Vec<String> {
    let mut wrong = Vec::new();
    let query = raw_pairs(&request.query, '&');
    let cookies = raw_pairs(&request.header("cookie").unwrap_or_default().replace("; ", "&"), '&');
    let Some(raw_path) = request.path.strip_prefix("/base") else {
        return vec![format!("the path {}", request.path)];
    };
    let Some(holes) = holes(&plan.path, raw_path) else {
        return vec![format!("the path {raw_path} does not come from {}", plan.path)];
    };
    let mut known = 0;
    for param in &plan.params {
        let Some(value) = arguments.get(&param.property).filter(|value| !value.is_null()) else { continue };
        let raw = match param.place.as_str() {
            "path" => {
                Raw::Text(holes.iter().find(|(name, _)| *name == param.name).map(|(_, raw)| raw.clone()))
            }
            "header" => Raw::Text(request.header(&param.name)),
            "query" => Raw::Pairs(&query),
            _ => Raw::Pairs(&cookies),
        };
        if let Err(what) = compare(param, value, &raw, &mut known) {
            wrong.push(format!(
                "{} `{}` ({}, explode {}): {what}",
                param.place, param.name, param.style, param.explode
            ));
        }
    }
    for property in arguments.keys() {
        let is_body = ["body", "_request_body"].iter().any(|name| property.starts_with(name));
        if !is_body && !plan.params.iter().any(|param| param.property == *property) {
            wrong.push(format!("an argument `{property}` from nowhere"));
        }
    }
    let all = query.len() + cookies.len();
    let credentials = super::plan::schemes(root)
        .iter()
        .filter(|(_, scheme)| match scheme {
            Scheme::Query(name) => query.iter().any(|(there, _)| there == name),
            Scheme::Cookie(name) => cookies.iter().any(|(there, _)| there == name),
            _ => false,
        })
        .count();
    if known + credentials < all {
        wrong.push(format!(
            "more in the query or the cookies than was asked for: {} {:?}",
            request.query,
            request.header("cookie")
        ));
    }
    wrong.extend(bodies::problems(plan, root, arguments, request));
    wrong
}

enum Raw<'a> {
    Text(Option<String>),
    Pairs(&'a [(String, String)]),
}

fn compare(param: &Param, value: &Value, raw: &Raw<'_>, known: &mut usize) -> Result<(), String> {
    let wanted = canonical(value);
    let seen = match raw {
        Raw::Text(None) => return Err("it is not there".to_owned()),
        Raw::Text(Some(raw)) if param.place == "header" => {
            // A header is not encoded, so a comma in an item is ambiguous; the value is compared as a whole.
            let expected = if param.is_json { value.to_string() } else { header_text(value, param.explode) };
            let raw = raw.trim();
            return if raw == expected.trim() {
                Ok(())
            } else {
                Err(format!("{raw:?} and not {expected:?}"))
            };
        }
        Raw::Text(Some(raw)) => in_path(param, value, raw, &wanted)?,
        Raw::Pairs(pairs) => match in_pairs(param, value, pairs, &wanted, known)? {
            None => return Ok(()),
            Some(seen) => seen,
        },
    };
    let wanted = if param.is_json { Seen::One(value.to_string()) } else { wanted };
    if seen == wanted { Ok(()) } else { Err(format!("{seen:?} and not {wanted:?}")) }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn canonical(value: &Value) -> Seen {
    match value {
        Value::Array(items) => Seen::List(items.iter().map(plain).collect()),
        Value::Object(fields) => Seen::Named(
            fields.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), plain(v))).collect(),
        ),
        other => Seen::One(plain(other)),
    }
}

fn header_text(value: &Value, explode: bool) -> String {
    let parts: Vec<String> = match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            let mark = if explode { "=" } else { "," };
            fields.iter().map(|(name, value)| format!("{name}{mark}{}", plain(value))).collect()
        }
        other => vec![plain(other)],
    };
    parts.join(",")
}

fn in_path(param: &Param, value: &Value, raw: &str, wanted: &Seen) -> Result<Seen, String> {
    if param.is_json || param.is_multi {
        return Ok(Seen::One(decoded(raw)));
    }
    let name = |text: &str| decoded(text) == param.name;
    // A dot may be in an item, too, and RFC 6570 does not encode it.
    if param.style == "label" && param.explode && !matches!(wanted, Seen::One(_)) {
        let parts: Vec<String> = match wanted {
            Seen::List(items) => items.clone(),
            Seen::Named(fields) => fields.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            Seen::One(_) => Vec::new(),
        };
        let mut rest = decoded(raw);
        for part in &parts {
            let at = rest.find(&format!(".{part}")).ok_or_else(|| format!("{part} is not in {raw}"))?;
            rest.replace_range(at..at + part.len() + 1, "");
        }
        return if rest.is_empty() { Ok(canonical(value)) } else { Err(format!("{raw} and not {parts:?}")) };
    }
    let (rest, outer) = match param.style.as_str() {
        "label" => (raw.strip_prefix('.').ok_or("no dot")?, if param.explode { '.' } else { ',' }),
        "matrix" => (raw.strip_prefix(';').ok_or("no semicolon")?, if param.explode { ';' } else { ',' }),
        _ => (raw, ','),
    };
    let is_matrix = param.style == "matrix";
    // A matrix begins with the name, unless its parts do.
    let value_of = |text: &str| -> Result<String, String> {
        if !is_matrix {
            return Ok(text.to_owned());
        }
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        if name(key) { Ok(value.to_owned()) } else { Err(format!("{text} is not named {}", param.name)) }
    };
    Ok(match wanted {
        Seen::One(_) => Seen::One(decoded(&value_of(rest)?)),
        Seen::List(_) if is_matrix && param.explode => Seen::List(
            rest.split(outer).map(|part| value_of(part).map(|v| decoded(&v))).collect::<Result<_, _>>()?,
        ),
        Seen::List(_) => Seen::List(value_of(rest)?.split(outer).map(decoded).collect()),
        Seen::Named(_) if param.explode => Seen::Named(rest.split(outer).filter_map(named).collect()),
        Seen::Named(_) => flat(&value_of(rest)?, ","),
    })
}

fn named(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(name, value)| (decoded(name), decoded(value)))
}

/// Reads the form `a,1,b,2`.
fn flat(text: &str, mark: &str) -> Seen {
    let parts: Vec<String> = text.split(mark).map(decoded).collect();
    Seen::Named(
        parts.chunks(2).map(|pair| (pair[0].clone(), pair.get(1).cloned().unwrap_or_default())).collect(),
    )
}

fn in_pairs(
    param: &Param,
    value: &Value,
    pairs: &[(String, String)],
    wanted: &Seen,
    known: &mut usize,
) -> Result<Option<Seen>, String> {
    let own: Vec<&str> =
        pairs.iter().filter(|(name, _)| *name == param.name).map(|(_, raw)| raw.as_str()).collect();
    if param.is_json {
        *known += 1;
        return Ok(Some(Seen::One(decoded(own.first().ok_or("it is not there")?))));
    }
    if param.style == "deepObject" && (value.is_object() || value.is_array()) {
        let mut leaves = Vec::new();
        deep(&param.name, value, &mut leaves);
        *known += leaves.len();
        let missing = leaves
            .iter()
            .find(|(name, value)| !pairs.iter().any(|(n, raw)| n == name && decoded(raw) == *value));
        return missing.map_or(Ok(None), |leaf| Err(format!("{leaf:?} is not there")));
    }
    let mark = match param.style.as_str() {
        "spaceDelimited" => "%20",
        "pipeDelimited" => "%7C",
        _ => ",",
    };
    Ok(Some(match wanted {
        Seen::One(_) => {
            *known += 1;
            Seen::One(decoded(own.first().ok_or("it is not there")?))
        }
        // An empty list or object cannot be expressed.
        Seen::List(items) if items.is_empty() => return Ok(None),
        Seen::Named(fields) if fields.is_empty() => return Ok(None),
        Seen::List(_) if param.explode => {
            *known += own.len();
            Seen::List(own.into_iter().map(decoded).collect())
        }
        Seen::Named(fields) if param.explode => {
            *known += fields.len();
            let find = |name: &String| pairs.iter().find(|(n, _)| n == name).map(|(_, raw)| decoded(raw));
            Seen::Named(fields.keys().filter_map(|name| Some((name.clone(), find(name)?))).collect())
        }
        Seen::List(_) => {
            *known += 1;
            Seen::List(own.first().ok_or("it is not there")?.split(mark).map(decoded).collect())
        }
        Seen::Named(_) => {
            *known += 1;
            flat(own.first().ok_or("it is not there")?, mark)
        }
    }))
}

pub fn deep(name: &str, value: &Value, out: &mut Vec<(String, String)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| deep(&format!("{name}[{key}]"), value, out))
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| deep(&format!("{name}[{n}]"), value, out));
        }
        other => out.push((name.to_owned(), plain(other))),
    }
}

/// Returns the pairs with decoded names and unchanged values.
pub fn raw_pairs(text: &str, mark: char) -> Vec<(String, String)> {
    let parts = text.split(mark).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), value.to_owned())
        })
        .collect()
}

pub fn pairs(text: &str) -> Vec<(String, String)> {
    raw_pairs(text, '&').into_iter().map(|(name, raw)| (name, decoded(&raw.replace('+', " ")))).collect()
}

pub fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code =
            behind.get(..2).and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                rest = &behind[2..];
            }
            _ => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the values of a template's variables in a path.
fn holes(template: &str, path: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = path;
    let mut pieces = template.split('{');
    rest = rest.strip_prefix(&encoded_literal(pieces.next()?))?;
    for piece in pieces {
        let (name, literal) = piece.split_once('}')?;
        let literal = encoded_literal(literal);
        let end = if literal.is_empty() {
            rest.find('/').filter(|_| !template.ends_with('}')).unwrap_or(rest.len())
        } else {
            rest.find(&literal)?
        };
        found.push((name.to_owned(), rest[..end].to_owned()));
        rest = &rest[end + literal.len()..];
    }
    rest.is_empty().then_some(found)
}

/// A template may contain characters that a path encodes.
fn encoded_literal(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => char::from(b).to_string(),
            _ if b"-._~/%:@!$&'()*+,;=".contains(&b) => char::from(b).to_string(),
            _ => format!("%{b:02X}"),
        })
        .collect()
}
