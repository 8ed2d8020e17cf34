//! Merges alternatives at the root of a schema into one object.

use serde_json::{Map, Value, json};

/// The keywords of a schema that concern fields.
#[derive(Debug, Default)]
struct Fields {
    properties: Map<String, Value>,
    required: Vec<String>,
}

/// Removes `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not` from the root and adds their fields to its properties.
/// A field is required if every alternative requires it.
pub(super) fn flatten(schema: &mut Map<String, Value>) {
    let is_plain = !["anyOf", "oneOf", "allOf"].iter().any(|key| schema.contains_key(*key));
    if !is_plain {
        let Fields { properties, required } = fields(schema);
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
    }
    for key in ["anyOf", "oneOf", "allOf", "enum", "const", "not"] {
        schema.shift_remove(key);
    }
}

fn fields(schema: &Map<String, Value>) -> Fields {
    let mut all = Fields::default();
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        all.properties = properties.clone();
    }
    let required = schema.get("required").and_then(Value::as_array);
    all.required = required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let parts = |key: &str| schema.get(key).and_then(Value::as_array).into_iter().flatten();
    for part in parts("allOf").filter_map(Value::as_object) {
        let part = fields(part);
        for (name, field) in part.properties {
            all.properties.entry(name).or_insert(field);
        }
        require(&mut all.required, part.required);
    }
    for key in ["anyOf", "oneOf"] {
        let alternatives: Vec<Fields> = parts(key).filter_map(Value::as_object).map(fields).collect();
        if let Some(Fields { properties, required }) = either(&alternatives) {
            for (name, field) in properties {
                all.properties.entry(name).or_insert(field);
            }
            require(&mut all.required, required);
        }
    }
    all
}

fn require(names: &mut Vec<String>, more: Vec<String>) {
    for name in more {
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

/// The fields of all alternatives; `None` without any.
fn either(alternatives: &[Fields]) -> Option<Fields> {
    let first = alternatives.first()?;
    let mut required = first.required.clone();
    required.retain(|name| alternatives.iter().all(|a| a.required.contains(name)));
    let mut properties = Map::new();
    for name in alternatives.iter().flat_map(|a| a.properties.keys()) {
        if properties.contains_key(name) {
            continue;
        }
        let having: Vec<&Fields> = alternatives.iter().filter(|a| a.properties.contains_key(name)).collect();
        let mut variants: Vec<Value> = Vec::new();
        for field in having.iter().filter_map(|a| a.properties.get(name)) {
            if !variants.contains(field) {
                variants.push(field.clone());
            }
        }
        let mut field = one_of(variants);
        if having.len() < alternatives.len()
            && let Some(field) = field.as_object_mut()
        {
            let labels: Vec<String> = having.iter().filter_map(|a| label(a)).collect();
            if labels.len() == having.len() {
                let only = format!("Only with {}.", labels.join(" or "));
                let said = match field.get("description").and_then(Value::as_str) {
                    Some(said) => format!("{said} {only}"),
                    None => only,
                };
                field.insert("description".to_owned(), said.into());
            }
        }
        properties.insert(name.clone(), field);
    }
    Some(Fields { properties, required })
}

/// Returns the only value that a field can have, if there is one.
fn only_value(field: &Value) -> Option<&Value> {
    let one = |values: &'_ [Value]| values.len() == 1;
    field.get("const").or_else(|| field.get("enum")?.as_array().filter(|v| one(v))?.first())
}

/// Describes an alternative by its fixed fields, for example `kind "move"`.
fn label(alternative: &Fields) -> Option<String> {
    let known = |(name, field): (&String, &Value)| only_value(field).map(|value| format!("{name} {value}"));
    let parts: Vec<String> = alternative.properties.iter().filter_map(known).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// Returns a schema that accepts the values of all these schemas.
fn one_of(mut variants: Vec<Value>) -> Value {
    let values: Option<Vec<Value>> = variants.iter().map(|v| only_value(v).cloned()).collect();
    match values {
        Some(values) if values.len() > 1 => {
            let kind = variants
                .first()
                .and_then(|v| v.get("type"))
                .filter(|kind| variants.iter().all(|v| v.get("type") == Some(kind)));
            let mut out = Map::new();
            out.extend(kind.map(|kind| ("type".to_owned(), kind.clone())));
            out.insert("enum".to_owned(), Value::Array(values));
            Value::Object(out)
        }
        _ if variants.len() == 1 => variants.pop().unwrap_or_default(),
        _ => json!({"anyOf": variants}),
    }
}
