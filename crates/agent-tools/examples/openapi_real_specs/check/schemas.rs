//! The rules for schemas that every provider accepts.

use serde_json::Value;

const KNOWN: [&str; 31] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "enum",
    "const",
    "default",
    "description",
    "format",
    "pattern",
    "contentEncoding",
    "contentMediaType",
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
    "uniqueItems",
    "anyOf",
    "allOf",
    "not",
    "title",
    "oneOf",
];

/// Returns the violations of the rules in the schema of a tool.
pub fn problems(schema: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let length = schema.to_string().len();
    if length > 32 * 1024 {
        wrong.push(format!("a schema of {length} bytes"));
    }
    if schema["type"] != "object" || !schema["properties"].is_object() {
        wrong.push("a schema that is no object's".to_owned());
    }
    for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let is_valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        if !(1..=64).contains(&name.len()) || !name.bytes().all(is_valid) {
            wrong.push(format!("an argument `{name}`"));
        }
    }
    walk(schema, &mut wrong);
    wrong
}

fn walk(schema: &Value, wrong: &mut Vec<String>) {
    let Some(object) = schema.as_object() else {
        if !schema.is_boolean() {
            wrong.push(format!("a schema {schema}"));
        }
        return;
    };
    for (keyword, value) in object {
        let fits = match keyword.as_str() {
            "type" => {
                value.is_string()
                    || value.as_array().is_some_and(|all| all.len() > 1 && all.iter().all(Value::is_string))
            }
            "properties" => {
                value.as_object().into_iter().flatten().for_each(|(_, schema)| walk(schema, wrong));
                value.is_object()
            }
            "additionalProperties" | "items" | "not" => {
                walk(value, wrong);
                true
            }
            "anyOf" | "allOf" | "oneOf" | "prefixItems" => {
                value.as_array().into_iter().flatten().for_each(|schema| walk(schema, wrong));
                value.as_array().is_some_and(|all| !all.is_empty())
            }
            "required" => {
                value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string))
            }
            "enum" => value.as_array().is_some_and(|all| !all.is_empty()),
            "uniqueItems" => value.is_boolean(),
            "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType" => {
                value.is_string()
            }
            "const" | "default" => true,
            _ => value.is_number(),
        };
        if !fits || !KNOWN.contains(&keyword.as_str()) {
            wrong.push(format!("the keyword `{keyword}` in {:.200}", schema.to_string()));
        }
    }
    if object.get("type") == Some(&Value::from("array")) && !object.contains_key("items") {
        wrong.push("a list without items".to_owned());
    }
}
