//! A tool as a model is told of it, for the protocols that name it, describe it and give its schema side by side.

use serde_json::Value;

use crate::json::Members;

/// Writes it. The schema stands under `member`, and says that it is an object's: the vendors take no other and want it
/// said.
pub(crate) fn write(out: &mut Vec<u8>, name: &str, description: &str, member: &str, parameters: &Value) {
    let mut tool = Members::open(out);
    tool.field("name", name);
    if !description.trim().is_empty() {
        tool.field("description", description);
    }
    let mut schema = Members::open(tool.key(member));
    schema.field("type", "object");
    for (key, value) in parameters.as_object().into_iter().flatten().filter(|(k, _)| *k != "type") {
        schema.field(key, value);
    }
    schema.close();
    tool.close();
}
