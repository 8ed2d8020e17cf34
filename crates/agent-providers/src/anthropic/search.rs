//! The vendor's search for deferred tools: which models have it, and its form in requests.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use agent_core::{Content, History, ModelConfig, ModelRequest, ToolSearchForm};
use serde_json::Value;

use super::config::is_vendor;
use crate::json::Members;

/// The kind of the block with the result of a search.
const RESULT: &str = "tool_search_tool_result";

/// The beginnings of the ids of models that cannot search: those before version 4.5, and the small ones before version 5.
const WITHOUT: &[&str] = &[
    "claude-2",
    "claude-3",
    "claude-instant",
    "claude-haiku-4",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4@",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4@",
];

/// Returns how this model finds deferred tools.
pub(crate) fn tool_search(model: &ModelConfig) -> ToolSearchForm {
    let id = &*model.id;
    let searches = id.starts_with("claude-")
        && !matches!(id, "claude-opus-4" | "claude-sonnet-4")
        && !WITHOUT.iter().any(|older| id.starts_with(older));
    if searches && is_vendor(model) { ToolSearchForm::Vendor } else { ToolSearchForm::Listed }
}

/// Writes the vendor's search as a tool of the list. Version BM25 takes words, as the agent's own search does.
pub(super) fn write_tool(out: &mut Vec<u8>) {
    let mut tool = Members::open(out);
    tool.field("type", "tool_search_tool_bm25_20251119").field("name", "tool_search_tool_bm25");
    tool.close();
}

/// Returns the names of the tools of a request if the conversation refers to one that the request does not have. The API
/// rejects such a reference.
pub(super) fn known_tools(request: &ModelRequest) -> Option<BTreeSet<&str>> {
    if request.tools.search() != ToolSearchForm::Vendor {
        return None;
    }
    let known: BTreeSet<&str> = request.tools.definitions().iter().map(|tool| &*tool.name).collect();
    let is_lost = |reference: &Value| !is_known(reference, &known);
    references(&request.history).any(is_lost).then_some(known)
}

fn references(history: &History) -> impl Iterator<Item = &Value> {
    let blocks = history.units().filter_map(|unit| unit.reply()).flat_map(|reply| &reply.content);
    let lists = blocks.filter_map(|content| match content {
        Content::Opaque(block) if block.kind == RESULT => {
            block.data.get("content")?.get("tool_references")?.as_array()
        }
        _ => None,
    });
    lists.flatten()
}

fn is_known(reference: &Value, known: &BTreeSet<&str>) -> bool {
    reference.get("tool_name").and_then(Value::as_str).is_some_and(|name| known.contains(name))
}

/// Returns the result of a search without references to unknown tools; `None` for another block.
pub(super) fn with_known(block: &Value, known: &BTreeSet<&str>) -> Option<Value> {
    if block.get("type").and_then(Value::as_str) != Some(RESULT) {
        return None;
    }
    let mut block = block.clone();
    let list = block.get_mut("content").and_then(|content| content.get_mut("tool_references"));
    list?.as_array_mut()?.retain(|reference| is_known(reference, known));
    Some(block)
}
