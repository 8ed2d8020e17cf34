//! The closed form of a schema: what vendors that enforce schemas take.
//!
//! The smallest common part of what they document: objects closed and every member demanded, no defaults, alternatives
//! as `anyOf`, single values as `enum`, formats of texts only. Checked 2026-11 against the pages on structured output of
//! OpenAI, Anthropic and Google.

use serde_json::{Map, Value, json};

/// Formats of texts that vendors know.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// What says nothing that must be kept.
const DROPPED: &[&str] =
    &["default", "examples", "$comment", "readOnly", "writeOnly", "deprecated", "uniqueItems", "title"];

/// Constraints that no grammar holds a model to: it is told of them instead, and the answer is checked.
const TOLD: &[&str] = &["minLength", "maxLength", "minProperties", "maxProperties", "contentEncoding"];

/// What stays as it is.
const KEPT: &[&str] = &[
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

/// How deep a schema is read. A type that goes deeper has no closed form.
const DEPTH: usize = 64;

/// The closed form; `None` when there is none.
pub(super) fn of(schema: &Value) -> Option<Value> {
    closed(schema, DEPTH)
}

fn closed(schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let members = schema.as_object()?;
    // Nothing may stand beside a reference, a description neither.
    if let Some(reference) = members.get("$ref") {
        return Some(json!({ "$ref": reference }));
    }
    let mut out = Map::new();
    let mut told = Vec::new();
    for (key, value) in members {
        match key.as_str() {
            key if DROPPED.contains(&key) => {}
            key if TOLD.contains(&key) => told.push(format!("{key}: {value}")),
            key if KEPT.contains(&key) => drop(out.insert(key.to_owned(), value.clone())),
            "const" => drop(out.insert("enum".to_owned(), json!([value]))),
            "format" if value.as_str().is_some_and(|f| FORMATS.contains(&f)) => {
                out.insert("format".to_owned(), value.clone());
            }
            // Those of numbers say less than the bounds that stand beside them.
            "format" => {}
            "oneOf" | "anyOf" => {
                let parts: Option<Vec<Value>> = value.as_array()?.iter().map(|v| closed(v, depth)).collect();
                out.insert("anyOf".to_owned(), Value::Array(parts?));
            }
            "items" => drop(out.insert("items".to_owned(), closed(value, depth)?)),
            "properties" | "$defs" => drop(out.insert(key.clone(), each(value, depth)?)),
            // Both are set below, for every object.
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
    // Something must be said of the value: a schema that takes anything cannot be enforced.
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
    if !told.is_empty() {
        let note = format!("{{{}}}", told.join(", "));
        let text = match out.get("description").and_then(Value::as_str) {
            Some(said) => format!("{said}\n\n{note}"),
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
