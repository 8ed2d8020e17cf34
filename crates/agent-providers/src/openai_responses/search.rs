//! The vendor's form of a search for deferred tools that the agent executes.
//!
//! The vendor loads the definitions from the result of the search, which is a part of the conversation. So the list of tools
//! does not change, and neither does the cached prefix. A search of another model is sent in the same form.

#[cfg(test)]
mod tests;

use agent_core::{ModelConfig, ToolDefinition, ToolResultMessage, ToolSearchForm, found_tools};

use super::config::is_vendor;
use crate::cache::openai::version;
use crate::json::Members;
use crate::tool_schema::declared;

/// The type of the item with a search.
pub(super) const CALL: &str = "tool_search_call";

/// The first version of a GPT model that searches.
const FIRST: (u32, u32) = (5, 4);

/// Returns how this model finds deferred tools. A deployment whose name is not that of its model counts as an older model.
pub(super) fn tool_search(model: &ModelConfig) -> ToolSearchForm {
    let searches = is_vendor(model) && version(&model.id).is_some_and(|version| version >= FIRST);
    if searches { ToolSearchForm::FromResults } else { ToolSearchForm::Listed }
}

/// Writes the agent's search tool.
pub(super) fn write_tool(out: &mut Vec<u8>, definition: &ToolDefinition) {
    let mut tool = Members::open(out);
    tool.field("type", "tool_search").field("execution", "client");
    tool.field("description", &definition.description).field("parameters", &declared(&definition.parameters));
    tool.close();
}

/// Writes a search. `id` is the vendor's id of the item, and `arguments` a JSON object.
pub(super) fn write_call(out: &mut Vec<u8>, id: Option<&str>, call_id: &str, arguments: &str) {
    let mut item = Members::open(out);
    item.field("type", CALL);
    if let Some(id) = id {
        item.field("id", id);
    }
    item.field("call_id", call_id).field("execution", "client").field("status", "completed");
    item.key("arguments").extend_from_slice(arguments.as_bytes());
    item.close();
}

/// Writes the result of a search. A search that failed has found nothing.
pub(super) fn write_output(out: &mut Vec<u8>, call_id: &str, result: &ToolResultMessage) {
    let status = if result.is_error { "incomplete" } else { "completed" };
    let mut item = Members::open(out);
    item.field("type", "tool_search_output").field("call_id", call_id);
    item.field("execution", "client").field("status", status);
    let list = item.key("tools");
    list.push(b'[');
    for (place, definition) in found_tools(result).iter().enumerate() {
        if place > 0 {
            list.push(b',');
        }
        let mut tool = Members::open(list);
        tool.field("type", "function").field("name", &definition.name);
        tool.field("description", &definition.description).field("defer_loading", &true);
        tool.field("parameters", &declared(&definition.parameters)).field("strict", &false);
        tool.close();
    }
    list.push(b']');
    item.close();
}
