//! Converts a schema and its parts: replaces references and converts older drafts.

use serde_json::{Map, Value, json};

use super::{MAX_DEPTH, MAX_NODES};

/// The seven types of JSON Schema.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// Writes schemas of one document.
pub(super) struct Writer<'a> {
    document: &'a Value,
    /// The references that are being written out.
    open: Vec<String>,
    nodes: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        Self { document, open: Vec::new(), nodes: 0 }
    }

    /// Any schema. `true` is written as `{}`, and `false` as one that nothing fits.
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        match schema {
            Value::Object(object) => Value::Object(self.object(object, depth)),
            Value::Bool(false) => json!({"not": {}}),
            _ => json!({}),
        }
    }

    pub(super) fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return Map::new();
        }
        let mut out = match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.referred(reference, depth),
            None => Map::new(),
        };
        for (key, value) in schema {
            let value = match key.as_str() {
                "$ref" | "$defs" | "definitions" | "$schema" | "additionalItems" => continue,
                "properties" | "patternProperties" | "dependentSchemas" => {
                    let Some(parts) = value.as_object() else { continue };
                    let parts = parts.iter().map(|(name, part)| (name.clone(), self.schema(part, depth + 1)));
                    Value::Object(parts.collect())
                }
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value.as_array() {
                    Some(parts) if !parts.is_empty() => self.list(parts, depth),
                    _ => continue,
                },
                "items" => match value {
                    // Until draft 2019-09 this was a list of schemas, with a separate keyword for further items.
                    Value::Array(parts) => {
                        if !parts.is_empty() {
                            out.insert("prefixItems".to_owned(), self.list(parts, depth));
                        }
                        self.schema(schema.get("additionalItems").unwrap_or(&Value::Bool(true)), depth + 1)
                    }
                    one => self.schema(one, depth + 1),
                },
                "contains" | "not" | "if" | "then" | "else" | "propertyNames" => {
                    self.schema(value, depth + 1)
                }
                // These two are commonly booleans, and every vendor reads that.
                "additionalProperties" | "unevaluatedProperties" => match value {
                    Value::Bool(_) => value.clone(),
                    schema => self.schema(schema, depth + 1),
                },
                "type" => match kinds(value) {
                    Some(kinds) => kinds,
                    None => continue,
                },
                "required" => match value.as_array() {
                    Some(names) if names.iter().all(Value::is_string) => value.clone(),
                    _ => continue,
                },
                "enum" => match value.as_array() {
                    Some(values) if !values.is_empty() => value.clone(),
                    _ => continue,
                },
                // In draft 4 these keywords are booleans that exclude the bound from the range.
                "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => continue,
                _ => value.clone(),
            };
            out.insert(key.clone(), value);
        }
        for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
            if schema.get(exclusive) == Some(&Value::Bool(true))
                && let Some(number) = out.shift_remove(bound)
            {
                out.insert(exclusive.to_owned(), number);
            }
        }
        let is_array = out.get("type").is_some_and(|kind| match kind {
            Value::Array(kinds) => kinds.iter().any(|kind| kind == "array"),
            kind => kind == "array",
        });
        if is_array && !out.contains_key("items") {
            out.insert("items".to_owned(), json!({}));
        }
        out
    }

    fn list(&mut self, parts: &[Value], depth: usize) -> Value {
        parts.iter().map(|part| self.schema(part, depth + 1)).collect()
    }

    /// Returns the schema that a reference names, or an empty one if the document does not contain it. For a recursive type,
    /// only the type is returned.
    fn referred(&mut self, reference: &str, depth: usize) -> Map<String, Value> {
        let target = reference.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
        let Some(target) = target.and_then(Value::as_object) else { return Map::new() };
        if self.open.iter().any(|open| open == reference) {
            let kept = target.iter().filter(|(key, _)| matches!(key.as_str(), "type" | "description"));
            let mut stub: Map<String, Value> =
                kept.map(|(key, value)| (key.clone(), value.clone())).collect();
            match stub.get("type").map(kinds) {
                Some(Some(kinds)) => stub.insert("type".to_owned(), kinds),
                Some(None) => stub.shift_remove("type"),
                None => None,
            };
            if stub.get("type").is_some_and(|kind| kind == "array") {
                stub.insert("items".to_owned(), json!({}));
            }
            return stub;
        }
        self.open.push(reference.to_owned());
        let out = self.object(target, depth + 1);
        self.open.pop();
        out
    }
}

/// Returns the known types, or `None` if there is none.
fn kinds(value: &Value) -> Option<Value> {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match value {
        Value::Array(kinds) => {
            let known: Vec<Value> = kinds.iter().filter(|kind| is_known(kind)).cloned().collect();
            (!known.is_empty()).then_some(Value::Array(known))
        }
        kind => is_known(kind).then(|| kind.clone()),
    }
}
