//! The tool with which a model finds the deferred tools of its agent.

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::ranking::Ranking;
use super::{AgentTool, Effects, ToolContext, ToolDefinition, ToolError, ToolResult};
use crate::message::ToolResultMessage;

/// The name of the tool with which a model finds [deferred](super::Tools::deferred) tools.
pub const TOOL_SEARCH: &str = "tool_search";

/// The number of tools that a search returns unless the model asks for another one.
const DEFAULT_LIMIT: usize = 5;

/// The greatest number of tools that a search returns.
const MAX_LIMIT: usize = 20;

/// The maximum number of bytes of a query that are compared: 4 KiB. The search runs on the thread of the run.
const MAX_QUERY_BYTES: usize = 4 * 1024;

/// The maximum number of characters of a description in a result. The next request contains all of it.
const MAX_SHOWN: usize = 300;

const DESCRIPTION: &str = "Searches for tools that you can call but that are not listed yet. Describe what you want to \
     do in a few words. The tools that it finds can be called in your next message. Search before you say that \
     something cannot be done.";

/// The member of a result's details that contains the definitions of the found tools.
const FOUND: &str = "tools";

/// Finds tools by words. Its result loads them.
#[derive(Debug)]
pub(super) struct SearchTool {
    definitions: Vec<ToolDefinition>,
    ranking: Ranking,
}

impl SearchTool {
    pub(super) fn new(definitions: Vec<ToolDefinition>) -> Self {
        let ranking = Ranking::new(&definitions);
        Self { definitions, ranking }
    }

    /// Returns the definition that the model receives. It does not depend on the tools, so that it never changes.
    pub(super) fn definition() -> ToolDefinition {
        let schema = json!({
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What the tool should do, in a few words."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "description": "The maximum number of tools to find. Default: 5.",
                },
            },
            "required": ["query"],
        });
        ToolDefinition::new(TOOL_SEARCH, DESCRIPTION, schema)
    }

    fn search(&self, query: &str, limit: usize) -> ToolResult {
        let found: Vec<&ToolDefinition> =
            self.ranking.best(query, limit).into_iter().filter_map(|at| self.definitions.get(at)).collect();
        let mut text = match found.len() {
            0 => "No tool matches these words. Try others, for example the kind of data or the action."
                .to_owned(),
            1 => "Found 1 tool. You can call it now:".to_owned(),
            count => format!("Found {count} tools. You can call them now:"),
        };
        for tool in &found {
            let line: String = tool.description.split_whitespace().collect::<Vec<_>>().join(" ");
            let shown: String = line.chars().take(MAX_SHOWN).collect();
            text.push_str(&format!("\n- {}: {shown}", tool.name));
        }
        ToolResult::text(text).with_details(json!({ FOUND: found }))
    }
}

#[async_trait]
impl AgentTool for SearchTool {
    fn name(&self) -> &str {
        TOOL_SEARCH
    }

    fn description(&self) -> &str {
        DESCRIPTION
    }

    fn parameters_schema(&self) -> Value {
        Self::definition().parameters
    }

    async fn execute(&self, arguments: Value, _ctx: ToolContext) -> Result<ToolResult, ToolError> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        let query = query.get(..query.floor_char_boundary(MAX_QUERY_BYTES)).unwrap_or_default();
        let limit = arguments.get("limit").and_then(Value::as_u64);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(DEFAULT_LIMIT);
        Ok(self.search(query, limit.clamp(1, MAX_LIMIT)))
    }

    fn effects(&self, _: &Value) -> Effects {
        Effects::ReadOnly
    }
}

/// Returns the definitions of the tools that a result of [`TOOL_SEARCH`] contains, as they were when it was created. Empty
/// for the result of another tool.
#[must_use]
pub fn found_tools(result: &ToolResultMessage) -> Vec<ToolDefinition> {
    let read = |definition: &Value| serde_json::from_value(definition.clone()).ok();
    found(result).filter_map(read).collect()
}

/// Returns the names of the tools that a result of a search contains.
pub(crate) fn found_names(result: &ToolResultMessage) -> impl Iterator<Item = &str> {
    found(result).filter_map(|definition| definition.get("name")?.as_str())
}

fn found(result: &ToolResultMessage) -> impl Iterator<Item = &Value> {
    let is_search = result.tool_name.as_str() == TOOL_SEARCH && !result.is_error;
    let list = result.details.get(FOUND).and_then(Value::as_array).filter(|_| is_search);
    list.into_iter().flatten()
}
