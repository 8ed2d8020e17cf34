//! References to texts that were written before, and a limit for the depth of nesting.
//!
//! A long text that is already in the file is written as `{"$text": where}`, a part that is nested too deeply as
//! `{"$json": "its text"}`, and an object of the caller that looks like one of these as `{"$raw": object}`. Reading
//! restores all three.

use serde_json::{Map, Value};

/// The minimum length in bytes of a text that is replaced by a reference.
pub(crate) const LONG_TEXT: usize = 96;

/// The level of nesting from which a part is written as text. serde_json reads 128 levels.
pub(crate) const MAX_DEPTH: usize = 48;

pub(crate) const TEXT: &str = "$text";
const JSON: &str = "$json";
const RAW: &str = "$raw";

/// Replaces texts for which `known` returns a place by references.
pub(crate) fn pack(value: Value, known: &mut dyn FnMut(&str) -> Option<Value>) -> Value {
    pack_at(value, MAX_DEPTH, known)
}

pub(crate) fn pack_at(value: Value, depth: usize, known: &mut dyn FnMut(&str) -> Option<Value>) -> Value {
    match value {
        Value::String(text) if text.len() >= LONG_TEXT => match known(&text) {
            Some(place) => mark(TEXT, place),
            None => Value::String(text),
        },
        Value::Array(_) | Value::Object(_) if depth == 0 => {
            let part = pack_at(value, MAX_DEPTH, &mut |_| None);
            mark(JSON, Value::String(part.to_string()))
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|v| pack_at(v, depth - 1, known)).collect())
        }
        Value::Object(map) => {
            let marked = is_marked(&map);
            let map: Map<String, Value> =
                map.into_iter().map(|(k, v)| (k, pack_at(v, depth - 1, known))).collect();
            if marked { mark(RAW, Value::Object(map)) } else { Value::Object(map) }
        }
        other => other,
    }
}

/// Resolves references while a value is read.
pub(crate) trait Resolve {
    /// Called for each long text.
    fn met(&mut self, text: &str);
    /// Returns the text at a place.
    fn find(&mut self, place: &Value) -> Result<String, String>;
}

/// Rejects all references.
pub(crate) struct NoReferences;

impl Resolve for NoReferences {
    fn met(&mut self, _: &str) {}

    fn find(&mut self, place: &Value) -> Result<String, String> {
        Err(format!("the reference {place} stands where none may"))
    }
}

/// Replaces references by their texts.
pub(crate) fn unpack(value: Value, texts: &mut dyn Resolve) -> Result<Value, String> {
    match value {
        Value::String(text) => {
            if text.len() >= LONG_TEXT {
                texts.met(&text);
            }
            Ok(Value::String(text))
        }
        Value::Array(items) => {
            Ok(Value::Array(items.into_iter().map(|v| unpack(v, texts)).collect::<Result<_, _>>()?))
        }
        Value::Object(mut map) if is_marked(&map) => {
            if let Some(place) = map.get(TEXT) {
                return texts.find(place).map(Value::String);
            }
            if let Some(text) = map.get(JSON) {
                let text = text.as_str().ok_or("$json holds no text")?;
                let part = serde_json::from_str(text).map_err(|e| format!("$json: {e}"))?;
                return unpack(part, &mut NoReferences);
            }
            match map.remove(RAW) {
                Some(Value::Object(inner)) => unpack_map(inner, texts),
                _ => Err("$raw holds no object".to_owned()),
            }
        }
        Value::Object(map) => unpack_map(map, texts),
        other => Ok(other),
    }
}

fn unpack_map(map: Map<String, Value>, texts: &mut dyn Resolve) -> Result<Value, String> {
    let map = map.into_iter().map(|(k, v)| Ok((k, unpack(v, texts)?)));
    Ok(Value::Object(map.collect::<Result<_, String>>()?))
}

fn is_marked(map: &Map<String, Value>) -> bool {
    map.len() == 1 && map.keys().all(|k| is_marked_key(k))
}

/// Returns whether an object with this single key looks like a reference.
pub(crate) fn is_marked_key(key: &str) -> bool {
    key == TEXT || key == JSON || key == RAW
}

fn mark(key: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(key.to_owned(), value);
    Value::Object(map)
}
