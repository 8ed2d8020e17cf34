//! Shapes the derived schemas of tool arguments.

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
