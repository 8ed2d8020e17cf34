//! The closed form of a schema, which vendors with enforcement support.
//!
//! It is the common subset of their documentation: objects are closed and every member is required, no defaults,
//! alternatives as `anyOf`, single values as `enum`, formats for texts only. Checked in November 2026 against the
//! structured-output pages of OpenAI, Anthropic and Google.

use serde_json::{Map, Value, json};

/// The text formats that vendors support.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Keywords that can be removed without loss.
const DROPPED: &[&str] =
    &["default", "examples", "$comment", "readOnly", "writeOnly", "deprecated", "uniqueItems", "title"];

/// Constraints that no grammar enforces. They are added to the description, and the answer is validated.
const DESCRIBED: &[&str] = &["minLength", "maxLength", "minProperties", "maxProperties", "contentEncoding"];

/// Keywords that are copied unchanged.
const UNCHANGED: &[&str] = &[
    "type",
    "description",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "enum",
];

/// The maximum depth of a schema. A deeper type has no closed form.
const DEPTH: usize = 64;

/// Returns the closed form; `None` if there is none.
pub(super) fn of(schema: &Value) -> Option<Value> {
    closed(schema, DEPTH)
}

fn closed(schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let members = schema.as_object()?;
    // A reference must not have other members beside it, not even a description.
    if let Some(reference) = members.get("$ref") {
        return Some(json!({ "$ref": reference }));
    }
    let mut out = Map::new();
    let mut notes = Vec::new();
    for (key, value) in members {
        match key.as_str() {
            key if DROPPED.contains(&key) => {}
            key if DESCRIBED.contains(&key) => notes.push(format!("{key}: {value}")),
            key if UNCHANGED.contains(&key) => drop(out.insert(key.to_owned(), value.clone())),
            "const" => drop(out.insert("enum".to_owned(), json!([value]))),
            "format" if value.as_str().is_some_and(|f| FORMATS.contains(&f)) => {
                out.insert("format".to_owned(), value.clone());
            }
            // The bounds beside a number format are stricter than the format.
            "format" => {}
            "oneOf" | "anyOf" => {
                let parts: Option<Vec<Value>> = value.as_array()?.iter().map(|v| closed(v, depth)).collect();
                out.insert("anyOf".to_owned(), Value::Array(parts?));
            }
            "items" => drop(out.insert("items".to_owned(), closed(value, depth)?)),
            "properties" | "$defs" => drop(out.insert(key.clone(), each(value, depth)?)),
            // Both are set for every object below.
            "required" => {}
            "additionalProperties" | "unevaluatedProperties" if value == &Value::Bool(false) => {}
            _ => return None,
        }
    }
    let of_type = |name: &str| match out.get("type") {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(many)) => many.iter().any(|one| one == name),
        _ => false,
    };
    // A schema that allows anything cannot be enforced.
    if !["type", "anyOf", "enum"].iter().any(|key| out.contains_key(*key)) {
        return None;
    }
    if of_type("array") && !out.contains_key("items") {
        return None;
    }
    if of_type("object") {
        let is_open = members.get("additionalProperties").is_none_or(|a| a != &Value::Bool(false))
            && members.get("properties").is_none();
        if is_open {
            return None;
        }
        let names: Vec<Value> =
            out.get("properties")?.as_object()?.keys().map(|k| Value::String(k.clone())).collect();
        out.insert("required".to_owned(), Value::Array(names));
        out.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    if !notes.is_empty() {
        let note = format!("{{{}}}", notes.join(", "));
        let text = match out.get("description").and_then(Value::as_str) {
            Some(text) => format!("{text}\n\n{note}"),
            None => note,
        };
        out.insert("description".to_owned(), Value::String(text));
    }
    Some(Value::Object(out))
}

fn each(schemas: &Value, depth: usize) -> Option<Value> {
    let members = schemas.as_object()?.iter().map(|(k, v)| Some((k.clone(), closed(v, depth)?)));
    members.collect::<Option<Map<String, Value>>>().map(Value::Object)
}
