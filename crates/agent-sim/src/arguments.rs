//! Arguments of tool calls, drawn from their JSON schema.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// Schemas that refer to themselves are followed this deep.
const MAX_DEPTH: u32 = 5;

/// Strings that occur as arguments. They are few, so that calls name the same thing again.
const WORDS: [&str; 6] = ["a", "b", "main", "two words", "", "../x"];

/// Returns arguments that fit the schema, as far as it consists of types, enums, bounds and references.
pub(crate) fn fitting(schema: &Value, random: &mut Random) -> Value {
    draw(schema, schema, random, MAX_DEPTH)
}

/// Returns a text that the schema should reject: cut off, without a field, with a field of another type, or no object.
pub(crate) fn unfitting(schema: &Value, random: &mut Random) -> String {
    let fitting = fitting(schema, random);
    let text = fitting.to_string();
    match (random.below(4), fitting) {
        (0, _) => {
            let mut text = text;
            text.pop();
            text
        }
        (1, Value::Object(mut fields)) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if let Some(name) = random.pick(&names) {
                fields.remove(name);
            }
            Value::Object(fields).to_string()
        }
        (2, Value::Object(mut fields)) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            if let Some(name) = random.pick(&names) {
                fields.insert(name.clone(), json!([{"odd": true}]));
            }
            Value::Object(fields).to_string()
        }
        _ => (*random.pick(&["", "null", "[]", "7"]).unwrap_or(&"")).to_owned(),
    }
}

fn draw(schema: &Value, root: &Value, random: &mut Random, depth: u32) -> Value {
    let Some(depth) = depth.checked_sub(1) else { return Value::Null };
    let list = |name: &str| schema.get(name).and_then(Value::as_array).filter(|list| !list.is_empty());
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let found = target.strip_prefix('#').and_then(|path| root.pointer(path));
        return found.map_or(Value::Null, |found| draw(found, root, random, depth));
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(value) = list("enum").or_else(|| list("examples")).and_then(|values| random.pick(values)) {
        return value.clone();
    }
    if let Some(value) = list("anyOf").or_else(|| list("oneOf")).and_then(|values| random.pick(values)) {
        return draw(value, root, random, depth);
    }
    if let Some(parts) = list("allOf") {
        let mut merged = Map::new();
        for part in parts {
            if let Value::Object(fields) = draw(part, root, random, depth) {
                merged.extend(fields);
            }
        }
        return Value::Object(merged);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => random.pick(kinds).and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match kind {
        Some("string") => string(schema, random),
        Some("integer") => json!(whole(schema, random)),
        Some("number") => json!(number(schema, random)),
        Some("boolean") => json!(random.chance(50)),
        Some("null") => Value::Null,
        Some("array") => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or_default();
            let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(least + 2);
            let items = schema.get("items").unwrap_or(&Value::Null);
            let count = least + random.below(most.min(least + 2).saturating_sub(least) + 1);
            (0..count).map(|_| draw(items, root, random, depth)).collect()
        }
        _ => object(schema, root, random, depth),
    }
}

fn object(schema: &Value, root: &Value, random: &mut Random, depth: u32) -> Value {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut fields = Map::new();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if required.contains(&name.as_str()) || random.chance(40) {
            fields.insert(name.clone(), draw(field, root, random, depth));
        }
    }
    Value::Object(fields)
}

fn string(schema: &Value, random: &mut Random) -> Value {
    let length = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let least = length("minLength").unwrap_or_default();
    let mut text = (*random.pick(&WORDS).unwrap_or(&"a")).to_owned();
    while text.chars().count() < least {
        text.push('a');
    }
    match length("maxLength") {
        Some(most) => json!(text.chars().take(most).collect::<String>()),
        None => json!(text),
    }
}

/// Returns the smallest and the largest number that the schema allows.
fn bounds(schema: &Value, step: f64) -> (Option<f64>, Option<f64>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + step));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - step));
    (least, most)
}

fn number(schema: &Value, random: &mut Random) -> f64 {
    let (least, most) = bounds(schema, 0.5);
    let drawn: f64 = *random.pick(&[0.0, 1.0, 2.5, 7.0, 1000.0, -1.0]).unwrap_or(&0.0);
    let drawn = least.map_or(drawn, |least| drawn.max(least));
    most.map_or(drawn, |most| drawn.min(most))
}

fn whole(schema: &Value, random: &mut Random) -> i64 {
    let (least, most) = bounds(schema, 1.0);
    let drawn = *random.pick(&[0_i64, 1, 2, 3, 10, 1000, -1]).unwrap_or(&0);
    #[expect(clippy::cast_possible_truncation, reason = "a bound outside of the range is cut to it")]
    let whole = |bound: f64| bound as i64;
    let drawn = least.map_or(drawn, |least| drawn.max(whole(least.ceil())));
    most.map_or(drawn, |most| drawn.min(whole(most.floor())))
}
