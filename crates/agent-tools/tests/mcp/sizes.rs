//! Attack 18: what a server sends is bounded in bytes and in numbers, over both transports.

use std::time::Duration;

use agent_tools::mcp::{
    MAX_LIST_BYTES, MAX_MESSAGE_VALUES, MAX_RESULT_BLOCKS, McpClient, McpError, McpLimit, McpServer,
};
use serde_json::json;

use crate::support::raw_http::{Events, RawHttp};
use crate::support::{child, connect, now_ms};

/// The longest time that a hostile answer may take in a debug build on a machine with other work. Without other work it
/// takes at most a fifth of that.
const LONGEST_MS: u64 = 30_000;

/// The same server over a pipe, over HTTP with JSON, and over HTTP with an event stream.
async fn clients(mode: &'static str) -> Vec<(&'static str, McpClient, Option<RawHttp>)> {
    let mut all = vec![("stdio", connect(child(mode)).await, None)];
    for (name, events) in [("json", Events::No), ("sse", Events::Yes)] {
        let server = RawHttp::start(mode, None, events).await;
        all.push((name, connect(McpServer::http("web", server.url())).await, Some(server)));
    }
    all
}

#[track_caller]
fn is_limit(name: &str, error: &McpError, expected: McpLimit) {
    match error {
        McpError::TooLarge { limit, .. } => assert_eq!(*limit, expected, "{name}"),
        other => panic!("{name}: {other:?}"),
    }
}

/// Attack 18.
#[tokio::test]
async fn a_list_of_heavy_tools_ends_with_the_limit_of_its_bytes() {
    for mode in ["raw_heavy", "raw_cursors"] {
        for (name, client, _server) in clients(mode).await {
            let begun = now_ms();
            let error = client.list_tools().await.unwrap_err();
            is_limit(name, &error, McpLimit::ListBytes);
            assert!(error.to_string().contains(&MAX_LIST_BYTES.to_string()), "{error}");
            let took = now_ms() - begun;
            println!("{mode} over {name}: {took} ms, peak {} KiB", peak_kib());
            assert!(took < LONGEST_MS, "{mode} over {name}: {took} ms");
        }
    }
}

/// Attack 18.
#[tokio::test]
async fn a_result_of_400_000_blocks_ends_with_a_limit() {
    for (name, client, _server) in clients("raw_blocks").await {
        let begun = now_ms();
        let error = client.call_tool("plain", json!({"n": 400_000})).await.unwrap_err();
        let limit = if name == "json" { McpLimit::ResultBlocks } else { McpLimit::MessageValues };
        is_limit(name, &error, limit);
        let took = now_ms() - begun;
        println!("400,000 blocks over {name}: {took} ms, peak {} KiB", peak_kib());
        assert!(took < LONGEST_MS, "{name}: {took} ms");

        let error = client.call_tool("plain", json!({"n": MAX_RESULT_BLOCKS + 1})).await.unwrap_err();
        is_limit(name, &error, McpLimit::ResultBlocks);
        let result = client.call_tool("plain", json!({"n": MAX_RESULT_BLOCKS})).await.unwrap();
        assert_eq!(result.content.len(), MAX_RESULT_BLOCKS, "{name}");
    }
}

#[tokio::test]
async fn structured_content_with_too_many_values_ends_with_a_limit() {
    for (name, client, _server) in
        clients("raw_values").await.into_iter().filter(|(name, ..)| *name != "json")
    {
        let error = client.call_tool("plain", json!({"n": 1})).await.unwrap_err();
        is_limit(name, &error, McpLimit::MessageValues);
        assert!(error.to_string().contains(&MAX_MESSAGE_VALUES.to_string()), "{error}");
    }
}

/// A line that cannot be parsed because of its depth still names the call that it answers.
#[tokio::test]
async fn a_too_deep_answer_over_stdio_fails_its_call_at_once() {
    let client = connect(child("raw_deep")).await;
    let call = client.call_tool("plain", json!({"n": 1}));
    match tokio::time::timeout(Duration::from_secs(30), call).await.unwrap().unwrap_err() {
        McpError::Protocol { detail, .. } => assert!(detail.contains("recursion limit"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_ends_with_a_limit() {
    for (name, client, _server) in clients("raw_endless_answer").await {
        let begun = now_ms();
        let call = client.call_tool("plain", json!({"n": 1}));
        let error = tokio::time::timeout(Duration::from_secs(30), call).await.unwrap().unwrap_err();
        if name == "sse" {
            // The SDK reports a torn stream, and not its reason.
            assert!(!matches!(error, McpError::Timeout { .. }), "{error:?}");
        } else {
            is_limit(name, &error, McpLimit::MessageBytes);
        }
        println!("17 MiB over {name}: {} ms", now_ms() - begun);
    }
}

#[tokio::test]
async fn a_tool_that_is_too_long_or_listed_twice_is_skipped() {
    for (name, client, _server) in clients("raw_big_tool").await {
        let list = client.list_tools().await.unwrap();
        let names: Vec<&str> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["small"], "{name}");
        assert_eq!(
            list.skipped,
            [
                "`described`, which is longer than 262144 bytes",
                "`formed`, which is longer than 262144 bytes",
                "`small`, which is listed twice",
            ],
            "{name}"
        );
    }
}

#[tokio::test]
async fn instructions_that_are_too_long_are_an_error_of_the_greeting() {
    let error = McpClient::connect(child("raw_instructions")).await.unwrap_err();
    is_limit("stdio", &error, McpLimit::InstructionsBytes);
    let server = RawHttp::start("raw_instructions", None, Events::No).await;
    let error = McpClient::connect(McpServer::http("web", server.url())).await.unwrap_err();
    is_limit("json", &error, McpLimit::InstructionsBytes);
}

/// The greatest memory of this process so far.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
