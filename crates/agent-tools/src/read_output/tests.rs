use std::sync::Arc;

use agent_core::{AgentTool as _, SystemEnvironment};

use super::*;

async fn call(tool: &ReadOutputTool, arguments: Value) -> Result<ToolResult, ToolError> {
    tool.execute(arguments, ToolContext::detached("read_output", Arc::new(SystemEnvironment))).await
}

async fn tool(output: &str) -> ReadOutputTool {
    let store = OutputStore::new();
    store.keep(output).await.unwrap();
    ReadOutputTool::new(store)
}

#[tokio::test]
async fn a_page_says_where_it_is_and_where_to_go_on() {
    let tool = tool("0123456789").await;
    let first = call(&tool, json!({"key": "out-1", "limit": 4})).await.unwrap();
    assert_eq!(first.to_text(), "[out-1: bytes 0 to 4 of 10; read on with offset 4]\n0123");
    assert_eq!(first.details, json!({"key": "out-1", "start": 0, "end": 4, "kept": 10, "produced": 10}));
    let last = call(&tool, json!({"key": "out-1", "offset": -3})).await.unwrap();
    assert_eq!(last.to_text(), "[out-1: bytes 7 to 10 of 10; this is the end]\n789");
}

#[tokio::test]
async fn what_was_over_the_bound_is_said_at_the_end() {
    let store = OutputStore::new().with_max_output_bytes(6);
    store.keep("0123456789").await.unwrap();
    let shown = call(&ReadOutputTool::new(store), json!({"key": "out-1"})).await.unwrap().to_text();
    assert_eq!(
        shown,
        "[out-1: bytes 0 to 6 of 6; this is the end of what is kept; 4 more bytes are lost]\n012345"
    );
}

#[track_caller]
fn check_error(result: Result<ToolResult, ToolError>, parts: &[&str]) {
    let error = result.unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn what_cannot_be_shown_is_an_error_that_says_what_to_do() {
    let tool = tool("0123456789").await;
    for key in ["out-2", "out-01x", "", "../../etc/passwd", "out-99999999999999999999"] {
        let parts = ["there is no output", "(the newest are out-1)", "make the call again"];
        check_error(call(&tool, json!({"key": key})).await, &parts);
    }
    let nothing = ReadOutputTool::new(OutputStore::new());
    check_error(call(&nothing, json!({"key": "out-1"})).await, &["(none is kept)"]);
    check_error(call(&tool, json!({"key": "out-1", "offset": 10})).await, &["past the end", "has 10 bytes"]);
    check_error(call(&tool, json!({"key": "out-1", "limit": 0})).await, &["at least 1"]);
    check_error(call(&tool, json!({"offset": 1})).await, &["missing field `key`"]);
}

#[tokio::test]
async fn a_page_has_a_bound_whatever_is_asked_for() {
    let tool = tool(&"é".repeat(300_000)).await;
    let usual = call(&tool, json!({"key": "out-1"})).await.unwrap();
    assert_eq!(usual.details["end"], DEFAULT_PAGE_BYTES);
    let most = call(&tool, json!({"key": "out-1", "limit": u64::MAX})).await.unwrap();
    assert_eq!(most.details["end"], MAX_PAGE_BYTES);
}

#[tokio::test]
async fn a_cancelled_call_reads_nothing() {
    let tool = tool("x").await;
    let ctx = ToolContext::detached("read_output", Arc::new(SystemEnvironment));
    ctx.cancel.cancel();
    assert_eq!(tool.execute(json!({"key": "out-1"}), ctx).await, Err(ToolError::Cancelled));
}
