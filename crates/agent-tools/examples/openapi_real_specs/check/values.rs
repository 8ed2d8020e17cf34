//! Generates arguments from a schema.

use serde_json::{Map, Value, json};

/// The selection of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    Required,
}

/// Generates arguments that conform to the schema of a tool.
pub fn arguments(schema: &Value, which: Which) -> Map<String, Value> {
    let required = |name: &String| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.contains(&json!(name)))
    };
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let wanted = fields.filter(|(name, _)| which == Which::All || required(name));
    wanted.map(|(name, schema)| (name.clone(), value(schema, name, 6))).collect()
}

/// Generates a value that conforms to a schema, with characters that must be encoded if the schema allows them.
pub fn value(schema: &Value, name: &str, depth: usize) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values
            .iter()
            .find(|value| !value.is_null() && **value != json!(""))
            .unwrap_or(&values[0])
            .clone();
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array)
        && schema.get("properties").is_none()
    {
        return value(&branches[0], name, depth);
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array)
        && schema.get("properties").is_none()
    {
        return value(&parts[0], name, depth);
    }
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() => "object",
        _ => "string",
    };
    match kind {
        "object" if depth > 0 => object(schema, depth - 1),
        "object" => json!({}),
        "array" => array(schema, name, depth),
        "integer" => json!(number(schema).round() as i64),
        "number" => {
            let number = number(schema);
            if number.fract() == 0.0 { json!(number as i64) } else { json!(number) }
        }
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => text(schema, name),
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut object: Map<String, Value> = fields
        .filter(|(_, schema)| !is_impossible(schema))
        .map(|(name, schema)| (name.clone(), value(schema, name, depth)))
        .collect();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        object.entry(name).or_insert_with(|| json!("free"));
    }
    if object.is_empty() && schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        let more = schema.get("additionalProperties").filter(|more| more.is_object());
        object.insert("any key".to_owned(), more.map_or(json!("v"), |more| value(more, "v", depth)));
    }
    Value::Object(object)
}

fn is_impossible(schema: &Value) -> bool {
    schema.get("not") == Some(&json!({}))
}

fn array(schema: &Value, name: &str, depth: usize) -> Value {
    if let Some(first) = schema.get("prefixItems").and_then(Value::as_array) {
        return first.iter().map(|item| value(item, name, depth)).collect();
    }
    let open = json!({});
    let items = schema.get("items").unwrap_or(&open);
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64);
    let most = bound("maxItems").unwrap_or(2).clamp(0, 2).max(bound("minItems").unwrap_or(0));
    let item = |n: u64| if depth > 0 { value(items, &format!("{name}{n}"), depth - 1) } else { json!("x") };
    Value::Array((0..most.min(50)).map(item).collect())
}

fn number(schema: &Value) -> f64 {
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let step = bound("multipleOf");
    let low = bound("minimum").or(bound("exclusiveMinimum").map(|low| low + 1.0));
    let high = bound("maximum").or(bound("exclusiveMaximum").map(|high| high - 1.0));
    let number = match (low, high) {
        (Some(low), _) => low,
        (None, Some(high)) => high.min(7.0),
        (None, None) => 7.0,
    };
    match step {
        Some(step) if step > 0.0 => (number / step).ceil() * step,
        _ => number,
    }
}

fn text(schema: &Value, name: &str) -> Value {
    if schema.get("contentEncoding") == Some(&json!("base64")) {
        return json!("AP8Kaaw=");
    }
    let bound = |key: &str| schema.get(key).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let mut text = match schema.get("format").and_then(Value::as_str) {
        Some("date") => "2026-11-21".to_owned(),
        Some("date-time") => "2026-11-21T16:00:00Z".to_owned(),
        Some("uuid") => "7c9e6679-7425-40de-944b-e07fc1f90ae7".to_owned(),
        Some("uri" | "url") => "https:".to_owned(),
        _ => format!("{} ä&=+,;|%?#.\"{}", &name.chars().take(8).collect::<String>(), '\u{1F600}')
            .replace('/', "_"),
    };
    if let Some(most) = bound("maxLength") {
        text = text.chars().take(most).collect();
    }
    while text.chars().count() < bound("minLength").unwrap_or(1).clamp(1, 5000) {
        text.push('x');
    }
    json!(text)
}
