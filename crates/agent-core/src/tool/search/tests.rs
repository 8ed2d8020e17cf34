use serde_json::json;

use super::*;

fn tools() -> SearchTool {
    let tool = |name: &str, text: &str| ToolDefinition::new(name, text, json!({"type": "object"}));
    let many = (0..30).map(|n| tool(&format!("read_table_{n}"), "Reads a table."));
    SearchTool::new(std::iter::once(tool("refund_order", "Refunds\n an order.")).chain(many).collect())
}

fn result_of(tool: &SearchTool, arguments: Value) -> ToolResult {
    let context = ToolContext::detached(TOOL_SEARCH, std::sync::Arc::new(crate::SystemEnvironment));
    let result = futures_util::FutureExt::now_or_never(tool.execute(arguments, context));
    result.expect("a search does not wait").expect("a search does not fail")
}

#[test]
fn a_result_names_the_tools_and_carries_their_definitions() {
    let result = result_of(&tools(), json!({"query": "refund"}));
    assert_eq!(result.to_text(), "Found 1 tool. You can call it now:\n- refund_order: Refunds an order.");
    assert_eq!(result.details["tools"][0]["parameters"], json!({"type": "object"}));
    let nothing = result_of(&tools(), json!({"query": "weather"}));
    assert!(nothing.to_text().starts_with("No tool matches"), "{}", nothing.to_text());
}

#[test]
fn the_number_of_found_tools_is_bounded() {
    let count = |arguments| result_of(&tools(), arguments).details["tools"].as_array().map(Vec::len);
    assert_eq!(count(json!({"query": "read table"})), Some(5));
    assert_eq!(count(json!({"query": "read table", "limit": 2})), Some(2));
    assert_eq!(count(json!({"query": "read table", "limit": 9000})), Some(20));
}

#[test]
fn only_the_beginning_of_a_long_query_is_compared() {
    let long = "é".repeat(MAX_QUERY_BYTES);
    let found = |query: String| {
        result_of(&tools(), json!({ "query": query })).details["tools"].as_array().map(Vec::len)
    };
    assert_eq!(found(format!("refund {long}")), Some(1));
    assert_eq!(found(format!("{long} refund")), Some(0));
}

#[test]
fn only_the_results_of_searches_have_found_tools() {
    let details = json!({"tools": [ToolDefinition::new("a", "A.", json!({})), {"odd": 1}]});
    let result = |name: &str, is_error: bool| {
        let empty = ToolResultMessage::new("c".into(), name.into(), vec![]);
        ToolResultMessage { details: details.clone(), is_error, ..empty }
    };
    let names: Vec<String> = found_tools(&result(TOOL_SEARCH, false)).into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["a"]);
    assert!(found_tools(&result("other", false)).is_empty());
    assert!(found_tools(&result(TOOL_SEARCH, true)).is_empty());
}
