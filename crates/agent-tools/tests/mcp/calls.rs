//! Calls and what comes of them.

use agent_core::{AgentTool as _, Content, Effects, ImageContent, ToolError, ToolSignal};
use agent_tools::mcp::{AnnotationTrust, McpClient, McpContent, McpError};
use serde_json::json;

use crate::support::server::PNG;
use crate::support::{
    call, child, child_in, connect, context, failure, lines, listening, now_ms, pids, runs, text, tool,
    tools, until,
};

/// REQ-114, REQ-116, REQ-168.
#[tokio::test]
async fn a_server_is_greeted_listed_and_called() {
    let client = connect(child("sdk")).await;
    let info = client.server_info().unwrap();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("test-server", "1.2.3"));
    assert_eq!(info.instructions.as_deref(), Some("Be brief."));
    assert_eq!(info.protocol_version, "2025-11-25");
    let list = client.list_tools().await.unwrap();
    assert!(list.tools.iter().any(|tool| tool.name == "echo"), "{list:?}");
    let result = client.call_tool("echo", json!({"text": "hällo"})).await.unwrap();
    assert_eq!(result.text(), "hällo");
    assert!(!result.is_error);
}

/// REQ-114.
#[tokio::test]
async fn the_greeting_asks_for_the_newest_version_that_is_greeted_so_and_takes_an_older_one() {
    let client = connect(child("raw_list")).await;
    let info = client.server_info().unwrap();
    assert_eq!((info.version.as_str(), info.protocol_version.as_str()), ("2025-11-25", "2025-06-18"));
}

/// REQ-114.
#[tokio::test]
async fn a_command_with_arguments_and_variables_is_enough() {
    let program = std::env::current_exe().unwrap();
    let args = ["support::server::process", "--exact", "--nocapture"];
    let env = [(crate::support::server::MODE, "sdk")];
    let client = McpClient::connect_stdio(program, args, env).await.unwrap();
    assert_eq!(client.call_tool("echo", json!({"text": "a"})).await.unwrap().text(), "a");
}

/// REQ-115, REQ-118.
#[tokio::test]
async fn an_error_of_the_server_keeps_its_code_and_text() {
    let client = connect(child("sdk")).await;
    let error = client.call_tool("refuse", json!({})).await.unwrap_err();
    match &error {
        McpError::JsonRpc { code, message, data, .. } => {
            assert_eq!((*code, message.as_str()), (-32602, "refuse is refused"));
            assert_eq!(data.as_deref(), Some(&json!({"why": 1})));
        }
        other => panic!("{other:?}"),
    }
    let told = failure(call(&client, "refuse", json!({})).await);
    assert_eq!(told, "MCP error -32602: server `test` refused tools/call of `refuse`: refuse is refused");
}

/// REQ-115.
#[tokio::test]
async fn any_request_can_be_sent_and_its_result_comes_as_it_is() {
    let client = connect(child("sdk")).await;
    assert_eq!(client.send_request("ping", None).await.unwrap(), json!({}));
    let params = json!({"name": "echo", "arguments": {"text": "a"}});
    let result = client.send_request("tools/call", Some(params)).await.unwrap();
    assert_eq!(result["content"][0]["text"], "a");
    let error = client.send_request("no/such", None).await.unwrap_err();
    assert!(matches!(error, McpError::JsonRpc { code: -32601, .. }), "{error:?}");
}

/// REQ-117, B-105.
#[tokio::test]
async fn a_tool_that_failed_is_an_error_result_with_its_text() {
    let client = connect(child("sdk")).await;
    let result = call(&client, "fail", json!({})).await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.to_text(), "the disk is full");
    let silent = connect(child("raw_empty_error")).await;
    let result = call(&silent, "plain", json!({"n": 1})).await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.to_text(), "The tool failed and did not say why.");
}

/// REQ-117.
#[tokio::test]
async fn pictures_come_as_pictures_and_what_cannot_be_shown_as_a_line() {
    let client = connect(child("sdk")).await;
    let result = call(&client, "image", json!({})).await.unwrap();
    assert_eq!(
        *result.content,
        [
            Content::text("one dot"),
            Content::image(PNG, "image/png"),
            Content::text("[image: image/tiff, about 15 bytes, which cannot be shown here]"),
        ]
    );
}

/// The text of an error is that of a result for the model.
#[tokio::test]
async fn a_long_error_of_the_server_is_cut() {
    let client = connect(child("raw_long_error")).await;
    match client.call_tool("plain", json!({"n": 1})).await.unwrap_err() {
        McpError::JsonRpc { code, message, data, .. } => {
            assert_eq!((code, data), (-32000, None));
            let text = message.strip_suffix("\n... (output truncated)").unwrap();
            assert_eq!(text.len(), agent_tools::mcp::MAX_RESULT_TEXT_BYTES);
        }
        other => panic!("{other:?}"),
    }
}

/// A picture that is none would make every later request of the conversation fail.
#[tokio::test]
async fn a_picture_that_is_no_base64_is_not_passed_on() {
    let client = connect(child("raw_bad_image")).await;
    let result = call(&client, "plain", json!({"n": 1})).await.unwrap();
    assert!(matches!(&result.content[0], Content::Text(_)), "{result:?}");
    match &result.content[1] {
        Content::Image(ImageContent::Base64 { mime_type, .. }) => assert_eq!(mime_type, "image/png"),
        other => panic!("{other:?}"),
    }
    // Bytes that are no picture, too many of them, and none.
    assert_eq!(result.content.len(), 5);
    for content in &result.content[2..] {
        match content {
            Content::Text(text) => assert!(text.text.contains("cannot be shown here"), "{text:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// REQ-117.
#[tokio::test]
async fn resources_links_and_sound_are_shown_or_named() {
    let client = connect(child("sdk")).await;
    let result = call(&client, "resource", json!({})).await.unwrap();
    assert_eq!(
        *result.content,
        [
            Content::text("[resource note://1]\nremember"),
            Content::text("[resource blob://2: application/pdf, about 6 bytes, which cannot be shown here]"),
            Content::image(PNG, "image/png"),
            Content::text("[resource link a <file:///a.md>, text/markdown: the plan]"),
            Content::text("[audio: audio/wav, about 6 bytes, which cannot be shown here]"),
        ]
    );
}

#[tokio::test]
async fn structured_content_is_the_details_and_the_text_where_there_is_none() {
    let client = connect(child("sdk")).await;
    let result = call(&client, "structured", json!({})).await.unwrap();
    assert_eq!(result.details, json!({"temperature": 21.5, "unit": "C"}));
    assert_eq!(result.to_text(), r#"{"temperature":21.5,"unit":"C"}"#);
}

#[tokio::test]
async fn a_picture_that_is_also_in_the_structured_content_is_shown_once() {
    let client = connect(child("raw_twice")).await;
    let result = call(&client, "plain", json!({"n": 1})).await.unwrap();
    assert_eq!(*result.content, [Content::image(PNG, "image/png")]);
    assert_eq!(result.details, json!({"data": PNG}));
}

#[tokio::test]
async fn blocks_of_unknown_kinds_are_shown_as_they_came() {
    let client = connect(child("raw_unknown")).await;
    let result = client.call_tool("plain", json!({"n": 1})).await.unwrap();
    assert_eq!(result.content[0], McpContent::Other(json!({"type": "hologram", "depth": 3})));
    let shown = text(call(&client, "plain", json!({"n": 1})).await);
    assert_eq!(shown, "{\"type\":\"hologram\",\"depth\":3}\n{\"type\":\"text\"}\nknown");
}

/// B-106.
#[tokio::test]
async fn an_empty_result_is_one_and_a_broken_one_is_not() {
    let empty = connect(child("raw_empty")).await;
    let result = call(&empty, "plain", json!({"n": 1})).await.unwrap();
    assert_eq!((result.content.len(), result.is_error), (0, false));
    let broken = connect(child("raw_bad_content")).await;
    let error = broken.call_tool("plain", json!({"n": 1})).await.unwrap_err();
    assert!(matches!(error, McpError::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn a_long_text_is_cut_between_two_characters() {
    let client = connect(child("raw_long")).await;
    let shown = text(call(&client, "plain", json!({"n": 1})).await);
    let (kept, mark) = shown.split_at(256 * 1024);
    assert!(kept.chars().all(|c| c == 'ä'));
    assert_eq!(mark, "\n... (output truncated)");
}

/// REQ-115, REQ-118.
#[tokio::test]
async fn an_answer_that_breaks_the_rules_ends_its_call_at_once() {
    for (mode, says) in
        [("raw_neither", "answered tools/call of `plain` wrongly: Empty result"), ("raw_wrong", "wrongly: ")]
    {
        let client = connect(child(mode)).await;
        let told = failure(call(&client, "plain", json!({"n": 1})).await);
        assert!(told.starts_with("MCP protocol error: server `test` "), "{told}");
        assert!(told.contains(says), "{told}");
        assert_eq!(client.list_tools().await.unwrap().tools.len(), 4, "the connection goes on");
    }
}

#[tokio::test]
async fn strange_answers_and_endless_lines_do_not_touch_a_call() {
    let client = connect(child("raw_noise")).await;
    for _ in 0..2 {
        assert_eq!(text(call(&client, "plain", json!({"n": 1})).await), "mine");
    }
}

/// REQ-143.
#[tokio::test]
async fn progress_comes_whole_in_order_and_before_the_end() {
    let said = |heard: Vec<ToolSignal>| -> Vec<String> {
        let texts = heard.into_iter().map(|signal| match signal {
            ToolSignal::Progress(text) => text,
            other => panic!("{other:?}"),
        });
        texts.collect()
    };
    let client = connect(child("sdk")).await;
    let slow = tool(&client, "slow").await;
    let (ctx, heard) = listening(&slow);
    assert_eq!(text(slow.execute(json!({"steps": 3}), ctx).await), "done");
    assert_eq!(said(heard.lock().unwrap().clone()), ["step 1 (1/3)", "step 2 (2/3)", "step 3 (3/3)"]);

    // All notes and the answer in one write.
    let fast = connect(child("raw_fast")).await;
    let plain = tool(&fast, "plain").await;
    for _ in 0..20 {
        let (ctx, heard) = listening(&plain);
        assert_eq!(text(plain.execute(json!({"n": 1}), ctx).await), "done");
        let expected: Vec<String> = (1..=20).map(|n| format!("{n}/20")).collect();
        assert_eq!(said(heard.lock().unwrap().clone()), expected);
    }
}

#[tokio::test]
async fn calls_of_one_server_run_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path())).await;
    let slow = tool(&client, "slow").await;
    let long = slow.execute(json!({"steps": 1, "ms": 600_000}), context(&slow));
    tokio::select! {
        result = long => panic!("it ended: {result:?}"),
        () = async {
            until("the slow call", || lines(folder.path(), "calls").contains(&"slow".to_owned())).await;
            for n in 0..10 {
                let result = client.call_tool("echo", json!({"text": n.to_string()})).await.unwrap();
                assert_eq!(result.text(), n.to_string());
            }
        } => {}
    }
}

#[tokio::test]
async fn an_aborted_call_ends_at_once_and_the_server_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path())).await;
    let slow = tool(&client, "slow").await;
    let ctx = context(&slow);
    let cancel = ctx.cancel.clone();
    let begun = now_ms();
    let (result, ()) = tokio::join!(slow.execute(json!({"steps": 1, "ms": 600_000}), ctx), async {
        until("the call", || lines(folder.path(), "calls").contains(&"slow".to_owned())).await;
        cancel.cancel();
    });
    assert_eq!(result, Err(ToolError::Cancelled));
    assert!(now_ms() - begun < 300_000);
    until("the cancellation", || !lines(folder.path(), "cancelled").is_empty()).await;
    assert_eq!(text(call(&client, "echo", json!({"text": "still there"})).await), "still there");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let client = connect(child_in(folder.path())).await;
    let slow = tool(&client, "slow").await;
    tokio::select! {
        result = slow.execute(json!({"steps": 1, "ms": 600_000}), context(&slow)) => panic!("it ended: {result:?}"),
        () = until("the call", || lines(folder.path(), "calls").contains(&"slow".to_owned())) => {}
    }
    until("the cancellation", || !lines(folder.path(), "cancelled").is_empty()).await;
}

#[tokio::test]
async fn silence_ends_a_call_and_progress_keeps_it_alive() {
    let folder = tempfile::tempdir().unwrap();
    let limit = std::time::Duration::from_secs(2);
    let client = connect(child_in(folder.path()).with_call_timeout(limit)).await;
    let error = client.call_tool("slow", json!({"steps": 1, "ms": 600_000})).await.unwrap_err();
    assert!(matches!(&error, McpError::Timeout { limit: given, .. } if *given == limit), "{error:?}");
    until("the cancellation", || !lines(folder.path(), "cancelled").is_empty()).await;
    // Longer in all than the limit, never silent for as long.
    let result = client.call_tool("slow", json!({"steps": 30, "ms": 100})).await.unwrap();
    assert_eq!(result.text(), "done");
    let pid = pids(folder.path(), "starts")[0];
    assert!(runs(pid), "a time-out is no reason to end the server");
}

#[tokio::test]
async fn a_call_has_an_end_also_with_progress() {
    let limit = std::time::Duration::from_secs(1);
    let client = connect(child("sdk").with_max_call_time(limit)).await;
    let error = client.call_tool("slow", json!({"steps": 6000, "ms": 100})).await.unwrap_err();
    assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
}

/// D26's effects for MCP: X6.
#[tokio::test]
async fn annotations_say_what_may_be_repeated_unless_they_are_not_believed() {
    let client = connect(child("sdk").with_annotations(AnnotationTrust::Believed)).await;
    let effects = async |name: &str| tool(&client, name).await.effects(&json!({}));
    assert_eq!(effects("echo").await, Effects::ReadOnly);
    assert_eq!(effects("crash_once_setting").await, Effects::Idempotent);
    assert_eq!(effects("slow").await, Effects::Once);
    let wary = connect(child("sdk").with_annotations(AnnotationTrust::Ignored)).await;
    assert!(tools(&wary).await.iter().all(|tool| tool.effects(&json!({})) == Effects::Once));
}
