//! A tool as a model is told of it, for the protocols that name it, describe it and give its schema side by side.

use serde_json::Value;

use crate::json::Members;
use crate::tool_schema::declared;

/// Writes it. The schema stands under `member`, and says that it is an object's: the vendors take no other and want it
/// said.
pub(crate) fn write(
    out: &mut Vec<u8>,
    name: &str,
    description: &str,
    member: &'static str,
    parameters: &Value,
) {
    let mut tool = Members::open(out);
    tool.field("name", name);
    if !description.trim().is_empty() {
        tool.field("description", description);
    }
    tool.field(member, &declared(parameters));
    tool.close();
}
