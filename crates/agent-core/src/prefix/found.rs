//! Which tools a conversation shows that its model knows.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Prefixes;
use crate::history::{History, Unit, UnitKind};
use crate::message::Content;
use crate::tool::{FoundBy, FoundTool, found_names};

/// The tools of the last conversation, so that only new units are read.
#[derive(Clone)]
pub(super) struct FoundTools {
    history: History,
    tools: Arc<Vec<FoundTool>>,
}

impl Prefixes {
    /// Returns the tools that the conversation found or called, in the order of their first appearance. The result depends
    /// only on `history`; the tools of the last conversation save work.
    pub(crate) fn found_tools(&self, history: &History) -> Arc<Vec<FoundTool>> {
        let mut memory = self.lock();
        let (known, mut tools) = match memory.found.take().filter(|last| history.extends(&last.history)) {
            Some(last) => (last.history.unit_count(), last.tools),
            None => (0, Arc::default()),
        };
        if known < history.unit_count() {
            add(&mut tools, history.units().skip(known));
        }
        memory.found = Some(FoundTools { history: history.clone(), tools: Arc::clone(&tools) });
        tools
    }
}

/// Returns the names of the tools that the vendor's search has loaded into a conversation.
pub(super) fn loaded_by_vendor(history: &History) -> BTreeSet<&str> {
    let replies = history.units().filter_map(|unit| unit.reply());
    replies.flat_map(|reply| &reply.content).flat_map(vendor_references).collect()
}

fn add<'u>(tools: &mut Arc<Vec<FoundTool>>, units: impl Iterator<Item = &'u Arc<Unit>>) {
    for unit in units.filter(|unit| unit.kind() != UnitKind::Failed) {
        let Some(reply) = unit.reply() else { continue };
        let mut note = |name: &str, by: FoundBy| {
            if !tools.iter().any(|(known, _)| known == name) {
                Arc::make_mut(tools).push((name.to_owned(), by));
            }
        };
        for content in &reply.content {
            match content {
                Content::ToolCall(call) => note(call.name.as_str(), FoundBy::Call),
                block => vendor_references(block).for_each(|name| note(name, FoundBy::Vendor)),
            }
        }
        unit.results().flat_map(found_names).for_each(|name| note(name, FoundBy::Agent));
    }
}

/// Returns the tools that a result of a vendor's search names.
fn vendor_references(content: &Content) -> impl Iterator<Item = &str> {
    let data = match content {
        Content::Opaque(block) if block.kind == "tool_search_tool_result" => Some(&block.data),
        _ => None,
    };
    let list = data.and_then(|data| data.get("content")?.get("tool_references")?.as_array());
    list.into_iter().flatten().filter_map(|reference| reference.get("tool_name").and_then(Value::as_str))
}
