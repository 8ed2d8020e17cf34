//! Converts a JSON Schema to the subset that Claude's structured outputs support.
//!
//! The API rejects any other schema: objects must be closed explicitly, numbers and lengths have no limits,
//! alternatives are `anyOf`, and types are not recursive. Unsupported rules that do not change the structure of the
//! reply are moved to the description, as in the vendor's own clients. Source: the vendor's page on structured outputs,
//! read 2026-11.

use serde_json::{Map, Value, json};

/// The members that the API accepts unchanged.
const KEPT: &[&str] = &["type", "enum", "const", "description", "title", "default"];

/// Constraints that are added to the description, because the API does not accept them.
const TOLD: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "examples",
];

/// The string formats that the API accepts.
const FORMATS: &[&str] =
    &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// The maximum depth of a converted schema.
const DEPTH: usize = 64;

/// Converts the schema to the form that the API accepts. Returns `None` if it has parts that the API cannot enforce: a map
/// with arbitrary keys, a value of any type, or a recursive type.
pub(crate) fn grammar(schema: &Value) -> Option<Value> {
    if holds_itself(schema) { None } else { part(schema, DEPTH) }
}

fn part(schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let members = schema.as_object()?;
    if let Some(reference) = members.get("$ref") {
        return Some(json!({ "$ref": reference }));
    }
    let mut out = Map::new();
    let mut told = Vec::new();
    for (key, value) in members {
        match key.as_str() {
            key if KEPT.contains(&key) => drop(out.insert(key.to_owned(), value.clone())),
            "minItems" if value.as_u64().is_some_and(|n| n <= 1) => {
                out.insert(key.clone(), value.clone());
            }
            "format" if value.as_str().is_some_and(|f| FORMATS.contains(&f)) => {
                out.insert(key.clone(), value.clone());
            }
            "minItems" | "format" => told.push(format!("{key}: {value}")),
            key if TOLD.contains(&key) => told.push(format!("{key}: {value}")),
            "anyOf" | "oneOf" => {
                let parts: Option<Vec<Value>> = value.as_array()?.iter().map(|v| part(v, depth)).collect();
                out.insert("anyOf".to_owned(), Value::Array(parts?));
            }
            "allOf" => {
                let parts: Option<Vec<Value>> = value.as_array()?.iter().map(|v| part(v, depth)).collect();
                out.insert("allOf".to_owned(), Value::Array(parts?));
            }
            "items" => drop(out.insert("items".to_owned(), part(value, depth)?)),
            "properties" | "$defs" | "definitions" => {
                let parts = value.as_object()?.iter().map(|(k, v)| Some((k.clone(), part(v, depth)?)));
                out.insert(key.clone(), Value::Object(parts.collect::<Option<_>>()?));
            }
            "required" => drop(out.insert(key.clone(), value.clone())),
            "additionalProperties" if value == &Value::Bool(false) => {}
            "$schema" | "$id" | "$comment" | "readOnly" | "writeOnly" | "deprecated" => {}
            _ => return None,
        }
    }
    if !["type", "anyOf", "allOf", "enum", "const"].iter().any(|key| out.contains_key(*key)) {
        return None;
    }
    let is_object = match out.get("type") {
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        said => said.is_some_and(|name| name == "object"),
    };
    if is_object {
        let said = members.get("additionalProperties").is_some();
        if !said && !out.contains_key("properties") {
            return None;
        }
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

/// Returns whether a part of the schema refers to itself, directly or through other parts.
fn holds_itself(schema: &Value) -> bool {
    fn references<'s>(schema: &'s Value, out: &mut Vec<&'s str>) {
        match schema {
            Value::Object(members) => {
                out.extend(members.get("$ref").and_then(Value::as_str));
                for (_, value) in members.iter().filter(|(k, _)| *k != "$defs" && *k != "definitions") {
                    references(value, out);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, out)),
            _ => {}
        }
    }
    let Some(members) = schema.as_object() else { return false };
    let definitions: Vec<(String, &Value)> = ["$defs", "definitions"]
        .iter()
        .filter_map(|key| Some((key, members.get(*key)?.as_object()?)))
        .flat_map(|(key, all)| all.iter().map(move |(name, part)| (format!("#/{key}/{name}"), part)))
        .collect();
    let mut of_root = Vec::new();
    references(schema, &mut of_root);
    // A reference to the root, or to a place within it, is recursive.
    let known = |name: &str| definitions.iter().any(|(n, _)| n == name);
    if of_root.iter().any(|name| !known(name)) {
        return true;
    }
    definitions.iter().any(|(start, _)| {
        let mut seen: Vec<&str> = Vec::new();
        let mut next = vec![start.as_str()];
        while let Some(name) = next.pop() {
            let Some((_, part)) = definitions.iter().find(|(n, _)| n == name) else { return true };
            let mut found = Vec::new();
            references(part, &mut found);
            for name in found {
                if name == start {
                    return true;
                }
                if !seen.contains(&name) {
                    seen.push(name);
                    next.push(name);
                }
            }
        }
        false
    })
}

#[cfg(test)]
mod tests;
