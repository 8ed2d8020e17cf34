use agent_core::provider::ServerToolCall;
use agent_core::{OwnedStreamEvent, StreamEvent, Usage};
use serde_json::{Value, json};

use super::*;

/// Returns the calls that the blocks show, and what is counted.
fn shown(blocks: &[(&str, Value)]) -> (Vec<ServerToolCall>, Usage) {
    let (mut calls, mut seen) = (ServerCalls::default(), Vec::new());
    for (kind, data) in blocks {
        calls.block(3, kind, data, &mut |event: StreamEvent<'_>| {
            if let OwnedStreamEvent::ServerTool { index: 3, call } = OwnedStreamEvent::from(event) {
                seen.push(*call);
            }
        });
    }
    (seen, calls.on(Usage::default()))
}

#[test]
fn the_blocks_of_each_vendor_show_the_start_and_the_end_of_a_call() {
    let input = json!({"query": "q"});
    let rows = [
        (
            ("server_tool_use", json!({"id": "srv_1", "name": "web_search", "input": input})),
            ("web_search_tool_result", json!({"tool_use_id": "srv_1", "content": []})),
            ("srv_1", "web_search", 1),
        ),
        (
            ("mcp_tool_use", json!({"id": "mcp_1", "name": "find", "server_name": "docs", "input": input})),
            ("mcp_tool_result", json!({"tool_use_id": "mcp_1", "is_error": false})),
            ("mcp_1", "mcp", 0),
        ),
        (
            ("toolUse", json!({"toolUse": {"toolUseId": "t_1", "name": "nova_grounding", "input": input}})),
            (
                "toolResult",
                json!({"toolResult": {"toolUseId": "t_1", "type": "nova_grounding_result", "status": "success"}}),
            ),
            ("t_1", "nova_grounding", 1),
        ),
        (
            ("toolCall", json!({"toolCall": {"id": "c_1", "toolType": "GOOGLE_SEARCH_WEB", "args": input}})),
            ("toolResponse", json!({"toolResponse": {"id": "c_1", "toolType": "GOOGLE_SEARCH_WEB"}})),
            ("c_1", "google_search_web", 1),
        ),
    ];
    for (call, result, (id, tool, searches)) in rows {
        let (seen, usage) = shown(&[call, result]);
        let started = ServerToolCall::started(id, tool).with_input(Some(input.clone()));
        assert_eq!(seen, [started, ServerToolCall::ended(id, tool)]);
        assert_eq!((usage.server_tool_calls, usage.web_searches), (1, searches), "{tool}");
    }
}

#[test]
fn a_failed_call_is_shown_as_failed_and_other_blocks_are_not_shown() {
    let failed = [
        ("web_fetch_tool_result", json!({"tool_use_id": "s", "content": {"type": "web_fetch_tool_error"}})),
        ("mcp_tool_result", json!({"tool_use_id": "s", "is_error": true})),
        ("codeExecutionResult", json!({"codeExecutionResult": {"outcome": "OUTCOME_FAILED"}})),
        ("toolResult", json!({"toolResult": {"toolUseId": "s", "status": "error"}})),
    ];
    for block in failed {
        let (seen, usage) = shown(std::slice::from_ref(&block));
        assert!(seen.iter().all(|call| call.is_error) && seen.len() == 1, "{block:?}");
        assert_eq!(usage, Usage::default(), "a result alone is no call");
    }
    let others =
        [("container", json!({"id": "c"})), ("reasoning", json!({})), ("server_tool_use", json!(null))];
    let (seen, _) = shown(&others);
    assert_eq!(seen, [ServerToolCall::started("", "")]);
}

#[test]
fn items_with_the_execution_of_the_client_are_no_calls_of_the_vendor() {
    let (mut calls, mut seen) = (ServerCalls::default(), 0);
    let mut sink = |_: StreamEvent<'_>| seen += 1;
    calls.begin_item(0, &json!({"type": "tool_search_call", "execution": "client"}), &mut sink);
    calls.begin_item(0, &json!({"type": "shell_call"}), &mut sink);
    calls.begin_item(0, &json!({"type": "mcp_call", "arguments": "{}"}), &mut sink);
    ServerCalls::end_item(0, &json!({"type": "mcp_call", "error": "no"}), &mut sink);
    assert_eq!((seen, calls.on(Usage::default()).server_tool_calls), (2, 1));
}
