//! Shapes the derived schemas of tool arguments, and removes arguments that say nothing.

use schemars::Schema;
use serde_json::{Map, Value};

/// Removes from the schema of an argument struct what a model does not need: the documentation of the struct, number
/// formats, and the null alternative and null default of optional fields.
pub(crate) fn plain(schema: &mut Schema) {
    schema.remove("description");
    let Some(Value::Object(fields)) = schema.get_mut("properties") else { return };
    for field in fields.values_mut().filter_map(Value::as_object_mut) {
        field.remove("format");
        if field.get("default") == Some(&Value::Null) {
            field.remove("default");
        }
        not_null(field);
    }
}

/// Removes optional arguments that say nothing. Some models fill each argument, with an empty text or a word for no value. Such a
/// word can be the name of a file or folder, so that a path is only removed when it is empty.
pub(crate) fn without_blanks(mut arguments: Value, optional: &[&str]) -> Value {
    let is_word = |text: &str| matches!(text, "null" | "None" | "none" | "undefined" | "nil");
    let is_blank = |name: &str, value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty() || (name != "path" && is_word(text.trim())),
        Value::Array(values) => values.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if let Some(members) = arguments.as_object_mut() {
        members.retain(|name, value| !(optional.contains(&name.as_str()) && is_blank(name, value)));
    }
    arguments
}

/// Replaces the types `[T, "null"]` by `T`.
fn not_null(field: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            field.insert("type".to_owned(), one);
        }
    }
}
