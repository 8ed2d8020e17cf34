//! Selects the keywords for the model, and converts those of OpenAPI 3.0 to JSON Schema 2020-12.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const TYPES: [&str; 7] = ["boolean", "integer", "number", "string", "array", "object", "null"];

/// Keywords whose value is a number.
const NUMBERS: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// Keywords whose value is a text.
const TEXTS: [&str; 4] = ["format", "pattern", "contentEncoding", "contentMediaType"];

/// The maximum number of values in a list when descriptions are omitted.
const MANY_VALUES: usize = 32;

/// Copies the keywords that do not change, if their values have the right type. All other keywords (`example`,
/// `discriminator`, `xml`, `externalDocs`, extensions and so on) are omitted.
pub(super) fn plain_keywords(from: &Map<String, Value>, to: &mut Map<String, Value>) {
    if let Some(types) = from.get("type").and_then(types) {
        to.insert("type".to_owned(), types);
    }
    for keyword in TEXTS {
        if let Some(value @ Value::String(_)) = from.get(keyword) {
            to.insert(keyword.to_owned(), value.clone());
        }
    }
    for keyword in NUMBERS {
        if let Some(value @ Value::Number(_)) = from.get(keyword) {
            to.insert(keyword.to_owned(), value.clone());
        }
    }
    // In OpenAPI 3.0 a separate keyword makes a bound exclusive.
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if from.get(exclusive) == Some(&Value::Bool(true))
            && let Some(value) = to.remove(bound)
        {
            to.insert(exclusive.to_owned(), value);
        }
    }
    if let Some(Value::Array(values)) = from.get("enum")
        && !values.is_empty()
    {
        let mut distinct: Vec<Value> = Vec::new();
        let mut seen = BTreeSet::new();
        for value in values {
            if seen.insert(value.to_string()) {
                distinct.push(value.clone());
            }
        }
        to.insert("enum".to_owned(), Value::Array(distinct));
    }
    for keyword in ["const", "default"] {
        if let Some(value) = from.get(keyword) {
            to.insert(keyword.to_owned(), value.clone());
        }
    }
    if from.get("uniqueItems") == Some(&Value::Bool(true)) {
        to.insert("uniqueItems".to_owned(), Value::Bool(true));
    }
    if let Some(names) = from.get("required").and_then(Value::as_array) {
        let names: Vec<Value> = names.iter().filter(|name| name.is_string()).cloned().collect();
        if !names.is_empty() {
            to.insert("required".to_owned(), Value::Array(names));
        }
    }
}

/// Returns the known types, or `None` if there is none.
fn types(value: &Value) -> Option<Value> {
    match value {
        Value::String(name) => TYPES.contains(&name.as_str()).then(|| value.clone()),
        Value::Array(names) => {
            let known = |name: &&Value| name.as_str().is_some_and(|name| TYPES.contains(&name));
            let mut names: Vec<Value> = names.iter().filter(known).take(TYPES.len()).cloned().collect();
            match names.len() {
                0 => None,
                1 => names.pop(),
                _ => Some(Value::Array(names)),
            }
        }
        _ => None,
    }
}

/// Removes long lists of values and compound defaults.
pub(super) fn drop_long_lists(keys: &mut Map<String, Value>) {
    if keys.get("enum").and_then(Value::as_array).is_some_and(|values| values.len() > MANY_VALUES) {
        keys.remove("enum");
    }
    if keys.get("default").is_some_and(|value| value.is_array() || value.is_object()) {
        keys.remove("default");
    }
}

/// Adds keywords that some vendors require, and removes requirements that cannot be fulfilled.
pub(super) fn finish(keys: &mut Map<String, Value>, hidden: &BTreeSet<String>) {
    if let Some(Value::Array(names)) = keys.get_mut("required") {
        names.retain(|name| name.as_str().is_some_and(|name| !hidden.contains(name)));
        if names.is_empty() {
            keys.remove("required");
        }
    }
    if keys.get("type") == Some(&json!("array")) && !keys.contains_key("items") {
        keys.insert("items".to_owned(), json!({}));
    }
}

/// Allows null as well.
pub(super) fn make_nullable(keys: &mut Map<String, Value>) {
    if let Some(Value::Array(values)) = keys.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    if let Some(value) = keys.remove("const") {
        keys.insert("enum".to_owned(), json!([value, null]));
    }
    match keys.get_mut("type") {
        Some(Value::Array(types)) => {
            if !types.contains(&json!("null")) {
                types.push(json!("null"));
            }
            return;
        }
        Some(one) => {
            if *one != json!("null") {
                *one = json!([one.clone(), "null"]);
            }
            return;
        }
        None => {}
    }
    if let Some(Value::Array(branches)) = keys.get_mut("anyOf") {
        let null = json!({"type": "null"});
        if !branches.contains(&null) {
            branches.push(null);
        }
        return;
    }
    if keys.contains_key("allOf") {
        let description = keys.remove("description");
        let whole = Value::Object(std::mem::take(keys));
        keys.insert("anyOf".to_owned(), json!([whole, {"type": "null"}]));
        if let Some(description) = description {
            keys.insert("description".to_owned(), description);
        }
    }
}
