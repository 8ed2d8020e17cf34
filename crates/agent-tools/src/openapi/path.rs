//! Path templates of operations, and the checks of the values in them.

use percent_encoding::percent_decode;
use serde_json::{Map, Value};

use super::config::PathSlashes;
use super::parameter::{Form, Parameter};
use super::style::{self, Keep};

/// The number of times a value is decoded, to detect what a server that decodes it repeatedly would see.
const MAX_DECODINGS: usize = 5;

/// A path template, in which values are inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Literal text, percent-encoded.
    Literal(String),
    /// The name of a parameter.
    Hole(String),
}

impl Template {
    /// Reads a path such as `/pets/{petId}`.
    ///
    /// # Errors
    /// Returns the reason why no request can be built from the path.
    pub(super) fn parse(path: &str) -> Result<Self, String> {
        if !path.starts_with('/') {
            return Err("its path does not begin with `/`".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = path;
        while let Some((before, behind)) = rest.split_once('{') {
            pieces.push(literal(before)?);
            let Some((name, behind)) = behind.split_once('}') else {
                return Err("its path has a brace that is not closed".to_owned());
            };
            if name.is_empty() {
                return Err("its path has a parameter without a name".to_owned());
            }
            pieces.push(Piece::Hole(name.to_owned()));
            rest = behind;
        }
        pieces.push(literal(rest)?);
        let template = Self { pieces };
        // The letter represents any value, so that only the template itself is checked.
        let sample: String = template
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => text.as_str(),
                Piece::Hole(_) => "x",
            })
            .collect();
        stays_below(&sample).map_err(|why| format!("its path {why}"))?;
        Ok(template)
    }

    /// Returns the names of the parameters in the path.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole(name) => Some(name.as_str()),
            Piece::Literal(_) => None,
        })
    }

    /// Returns the path with the values inserted, percent-encoded.
    ///
    /// # Errors
    /// Returns the name of a value that cannot be in the path, with the reason.
    pub(super) fn filled(
        &self,
        parameters: &[Parameter],
        arguments: &Map<String, Value>,
        slashes: PathSlashes,
    ) -> Result<String, String> {
        let mut path = String::new();
        for piece in &self.pieces {
            let name = match piece {
                Piece::Literal(text) => {
                    path.push_str(text);
                    continue;
                }
                Piece::Hole(name) => name,
            };
            let is_it = |p: &&Parameter| p.place == oas3::spec::ParameterIn::Path && p.name == *name;
            let missing = || format!("the path needs a value for `{name}`");
            let parameter = parameters.iter().find(is_it).ok_or_else(missing)?;
            let value = arguments.get(&parameter.property).ok_or_else(missing)?;
            path.push_str(&written(parameter, value, slashes)?);
        }
        stays_below(&path).map_err(|why| format!("with these values the path {why}"))?;
        Ok(path)
    }
}

fn literal(text: &str) -> Result<Piece, String> {
    if text.contains('}') {
        return Err("its path has a brace that is not opened".to_owned());
    }
    if text.contains(['?', '#']) {
        return Err("its path has a query or a fragment".to_owned());
    }
    if text.contains('\\') || text.chars().any(char::is_control) {
        return Err("its path has a backslash or a control character".to_owned());
    }
    // Text that is already encoded in the description remains encoded.
    let mut out = String::new();
    for c in text.chars() {
        if matches!(
            c,
            '/' | '%' | ':' | '@' | '!' | '$' | '&' | '(' | ')' | '*' | '+' | ',' | ';' | '=' | '\''
        ) {
            out.push(c);
        } else {
            out.push_str(&style::encoded(c.encode_utf8(&mut [0; 4]), Keep::Unreserved));
        }
    }
    Ok(Piece::Literal(out))
}

fn written(parameter: &Parameter, value: &Value, slashes: PathSlashes) -> Result<String, String> {
    let property = &parameter.property;
    let refused = |why: &str| format!("`{property}` {why}");
    let mut texts = Vec::new();
    texts_of(value, &mut texts);
    if texts.iter().all(String::is_empty) {
        return Err(refused("is empty; the path needs a value there"));
    }
    for text in &texts {
        let is_fine = parameter.form == Form::Segments || slashes == PathSlashes::Encoded;
        is_harmless(text, if is_fine { Slash::Fine } else { Slash::Refused }).map_err(refused)?;
    }
    match parameter.form {
        Form::Json => Ok(style::encoded(&value.to_string(), Keep::Unreserved)),
        Form::Styled { style, explode, .. } => {
            style::in_path(&parameter.name, value, style, explode).ok_or_else(|| refused("is null"))
        }
        Form::Segments => {
            let text = style::plain(value);
            let parts: Vec<String> =
                text.split('/').map(|part| style::encoded(part, Keep::Unreserved)).collect();
            if parts.iter().any(String::is_empty) {
                return Err(refused("has an empty part between its slashes"));
            }
            Ok(parts.join("/"))
        }
    }
}

/// Calls a function for every text in a value, including the names of fields.
fn texts_of(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, out)),
        Value::Object(fields) => {
            for (name, value) in fields {
                out.push(name.clone());
                texts_of(value, out);
            }
        }
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push(style::plain(value)),
    }
}

/// Whether values may contain `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slash {
    Fine,
    Refused,
}

/// Refuses a value that a server could interpret as a path to another operation.
fn is_harmless(text: &str, slash: Slash) -> Result<(), &'static str> {
    if text.chars().any(char::is_control) {
        return Err("has a control character, which a path cannot hold");
    }
    match slash {
        Slash::Fine => text.split('/').try_for_each(is_harmless_part),
        Slash::Refused => is_harmless_part(text),
    }
}

fn is_harmless_part(text: &str) -> Result<(), &'static str> {
    if text.contains(['/', '\\']) {
        return Err("has a slash, which would lead to another path; give one part of the path only");
    }
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=MAX_DECODINGS {
        if is_dots(&bytes) {
            return Err("is `.` or `..`, which would lead to another path");
        }
        let decoded: Vec<u8> = percent_decode(&bytes).collect();
        if decoded == bytes {
            return Ok(());
        }
        if decoded.iter().any(|byte| b"/\\".contains(byte) || byte.is_ascii_control()) {
            return Err(
                "has an encoded slash or control character; give the plain value, which is encoded here",
            );
        }
        bytes = decoded;
    }
    Err("is encoded many times over; give the plain value")
}

/// Returns whether a segment is `.` or `..`, also if it has a suffix after `;`, which some servers remove.
fn is_dots(part: &[u8]) -> bool {
    let part = part.split(|byte| *byte == b';').next().unwrap_or_default();
    part == b"." || part == b".."
}

/// Refuses a whole path with a part that leads upwards.
fn stays_below(path: &str) -> Result<(), &'static str> {
    for part in path.split('/') {
        let mut bytes = part.as_bytes().to_vec();
        for _ in 0..=MAX_DECODINGS {
            if bytes.split(|byte| b"/\\".contains(byte)).any(is_dots) {
                return Err("has a part `.` or `..`, which leads to another path");
            }
            bytes = percent_decode(&bytes).collect();
        }
    }
    Ok(())
}
