//! Reads the calls of the vendors' own tools in a reply, to display and to count them.

use std::collections::BTreeSet;

use agent_core::provider::ServerToolCall;
use agent_core::{EventSink, StreamEvent, Usage};
use serde_json::Value;

/// The suffix of the kinds of Anthropic's results.
const RESULT: &str = "_tool_result";

/// The items of the Responses API that are calls with their results, and the names of their tools.
const ITEMS: [(&str, &str); 8] = [
    ("web_search_call", "web_search"),
    ("file_search_call", "file_search"),
    ("code_interpreter_call", "code_interpreter"),
    ("image_generation_call", "image_generation"),
    ("mcp_call", "mcp"),
    ("mcp_list_tools", "mcp_list_tools"),
    ("tool_search_call", "tool_search"),
    ("program", "program"),
];

/// The names of the tools that search the web.
const SEARCHES: [&str; 4] = ["web_search", "google_search", "google_search_web", "nova_grounding"];

/// The calls of one reply so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ServerCalls {
    calls: u32,
    searches: u32,
    /// The searches that the vendor charges for, if it reports them.
    charged: Option<u32>,
}

impl ServerCalls {
    /// Displays and counts an opaque block, if it is a call or a result of one of the vendor's tools.
    pub(crate) fn block(&mut self, index: u32, kind: &str, data: &Value, sink: &mut EventSink<'_>) {
        match kind {
            "server_tool_use" => self.start(index, &call(data, text(data, "name")), sink),
            "mcp_tool_use" => self.start(index, &call(data, "mcp"), sink),
            "toolUse" => {
                let data = data.get("toolUse").unwrap_or(&Value::Null);
                let call = ServerToolCall::started(text(data, "toolUseId"), text(data, "name"));
                self.start(index, &call.with_input(data.get("input").cloned()), sink);
            }
            "toolResult" => {
                let data = data.get("toolResult").unwrap_or(&Value::Null);
                let failed = text(data, "status") == "error";
                let name = text(data, "type").trim_end_matches("_result");
                end(index, &ServerToolCall::ended(text(data, "toolUseId"), name).with_error(failed), sink);
            }
            "executableCode" => {
                let data = data.get(kind).unwrap_or(&Value::Null);
                let call = ServerToolCall::started(text(data, "id"), "code_execution");
                self.start(index, &call.with_input(Some(data.clone())), sink);
            }
            "codeExecutionResult" => {
                let data = data.get(kind).unwrap_or(&Value::Null);
                let failed = text(data, "outcome") != "OUTCOME_OK";
                end(
                    index,
                    &ServerToolCall::ended(text(data, "id"), "code_execution").with_error(failed),
                    sink,
                );
            }
            "toolCall" => {
                let data = data.get(kind).unwrap_or(&Value::Null);
                let name = text(data, "toolType").to_lowercase();
                let call = ServerToolCall::started(text(data, "id"), name);
                self.start(index, &call.with_input(data.get("args").cloned()), sink);
            }
            "toolResponse" => {
                let data = data.get(kind).unwrap_or(&Value::Null);
                let name = text(data, "toolType").to_lowercase();
                end(index, &ServerToolCall::ended(text(data, "id"), name), sink);
            }
            other => {
                if let Some(tool) = other.strip_suffix(RESULT) {
                    let failed = data.get("is_error").and_then(Value::as_bool).unwrap_or_default()
                        || data
                            .get("content")
                            .is_some_and(|content| text(content, "type").ends_with("_error"));
                    end(
                        index,
                        &ServerToolCall::ended(text(data, "tool_use_id"), tool).with_error(failed),
                        sink,
                    );
                }
            }
        }
    }

    /// Displays and counts the beginning of an item of the Responses API.
    #[cfg_attr(not(feature = "openai-responses"), allow(dead_code, reason = "only one API has items"))]
    pub(crate) fn begin_item(&mut self, index: u32, item: &Value, sink: &mut EventSink<'_>) {
        if let Some(tool) = tool_of(item) {
            let call = ServerToolCall::started(text(item, "id"), tool).with_input(input_of(item));
            self.start(index, &call, sink);
        }
    }

    /// Displays the end of an item of the Responses API.
    #[cfg_attr(not(feature = "openai-responses"), allow(dead_code, reason = "only one API has items"))]
    pub(crate) fn end_item(index: u32, item: &Value, sink: &mut EventSink<'_>) {
        if let Some(tool) = tool_of(item) {
            let failed =
                text(item, "status") == "failed" || item.get("error").is_some_and(|error| !error.is_null());
            let call = ServerToolCall::ended(text(item, "id"), tool);
            end(index, &call.with_input(input_of(item)).with_error(failed), sink);
        }
    }

    /// Displays and counts the searches that Gemini names beside its reply, except those that its parts contain.
    #[cfg_attr(not(feature = "google"), allow(dead_code, reason = "only one vendor names searches so"))]
    pub(crate) fn searched(&mut self, index: u32, queries: &BTreeSet<String>, sink: &mut EventSink<'_>) {
        let known = usize::try_from(self.searches).unwrap_or(usize::MAX);
        for query in queries.iter().skip(known) {
            let input = serde_json::json!({"query": query});
            self.start(index, &ServerToolCall::started("", "google_search").with_input(Some(input)), sink);
            end(index, &ServerToolCall::ended("", "google_search"), sink);
        }
    }

    /// Sets the number of searches that the vendor charges for.
    #[cfg_attr(not(feature = "anthropic"), allow(dead_code, reason = "only one vendor reports it"))]
    pub(crate) fn charged(&mut self, searches: u64) {
        self.charged = Some(u32::try_from(searches).unwrap_or(u32::MAX));
    }

    /// Returns whether the reply has calls.
    pub(crate) fn is_empty(self) -> bool {
        self.calls == 0 && self.charged.unwrap_or_default() == 0
    }

    /// Returns a usage with the calls so far.
    pub(crate) fn on(self, usage: Usage) -> Usage {
        if self.is_empty() {
            return usage;
        }
        usage.with_server_tool_calls(self.calls, self.charged.unwrap_or(self.searches))
    }

    fn start(&mut self, index: u32, call: &ServerToolCall, sink: &mut EventSink<'_>) {
        self.calls = self.calls.saturating_add(1);
        if SEARCHES.contains(&call.tool.as_str()) {
            self.searches = self.searches.saturating_add(1);
        }
        sink(StreamEvent::ServerTool { index, call });
    }
}

fn end(index: u32, call: &ServerToolCall, sink: &mut EventSink<'_>) {
    sink(StreamEvent::ServerTool { index, call });
}

fn call(data: &Value, tool: &str) -> ServerToolCall {
    ServerToolCall::started(text(data, "id"), tool).with_input(data.get("input").cloned())
}

/// Returns the name of the tool of an item that the vendor executes.
fn tool_of(item: &Value) -> Option<&'static str> {
    let kind = text(item, "type");
    // A search of tools that the client executes is no call of the vendor's tools.
    let by_client = text(item, "execution") == "client";
    ITEMS.iter().find(|(name, _)| *name == kind && !by_client).map(|(_, tool)| *tool)
}

/// Returns what the model passed to the tool of an item.
fn input_of(item: &Value) -> Option<Value> {
    let given = |name: &&str| item.get(*name).is_some_and(|value| !value.is_null());
    let name = ["action", "queries", "code", "arguments", "revised_prompt"].into_iter().find(given)?;
    let value = item.get(name)?.clone();
    Some(match name {
        "action" => value,
        _ => serde_json::json!({name: value}),
    })
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
