//! The Messages protocol over real connections on loopback: a good answer, refusals, a broken stream, an abort, and,
//! on request, the vendor itself.

#![cfg(feature = "anthropic")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail loudly, and says so when it skips"
)]

mod anthropic_server;

use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    AgentMessage, CancellationToken, Content, ErrorKind, History, ModelConfig, ModelRequest,
    OwnedStreamEvent, ProviderError, ReplyLog, StopReason, StreamProvider, ToolDefinition, complete,
    stream_to,
};
use agent_providers::AnthropicProvider;
use anthropic_server::{Answer, End, Server};
use serde_json::{Value, json};

const REPLY: &str = concat!(
    "event: message_start\n",
    r#"data: {"type":"message_start","message":{"id":"msg_1","model":"claude-test","usage":{"input_tokens":9,"cache_read_input_tokens":5,"cache_creation_input_tokens":2,"output_tokens":1}}}"#,
    "\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_start\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#,
    "\n\nevent: content_block_stop\n",
    r#"data: {"type":"content_block_stop","index":0}"#,
    "\n\nevent: content_block_start\n",
    r#"data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
    "\n\nevent: content_block_delta\n",
    r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"x\"}"}}"#,
    "\n\nevent: content_block_stop\n",
    r#"data: {"type":"content_block_stop","index":1}"#,
    "\n\nevent: message_delta\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":12}}"#,
    "\n\nevent: message_stop\n",
    r#"data: {"type":"message_stop"}"#,
    "\n\n",
);

fn request(url: &str) -> ModelRequest {
    let mut history = History::new();
    history.push(AgentMessage::user("hi")).unwrap();
    let model = ModelConfig::anthropic("claude-test", "Claude", "sk-ant-secret").with_base_url(url);
    let mut request = ModelRequest::new(model, history);
    request.tools = vec![ToolDefinition::new("read", "Reads.", json!({"type": "object"}))].into();
    request
}

async fn run(request: &ModelRequest) -> (ReplyLog, Result<agent_core::Completion, ProviderError>) {
    let mut log = ReplyLog::new();
    let end = AnthropicProvider::new()
        .stream(request, &mut |event| log.push(&event), &CancellationToken::new())
        .await;
    (log, end)
}

/// REQ-040, REQ-128, REQ-167.
#[tokio::test]
async fn a_streamed_reply_becomes_a_message_with_its_usage() {
    let server = Server::start(Answer::stream(REPLY).cut(50)).await;
    let message =
        complete(&AnthropicProvider::new(), &request(&server.url), &CancellationToken::new()).await.unwrap();
    assert_eq!(message.text(), "Hello");
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!(message.tool_calls().next().unwrap().arguments.value().unwrap(), &json!({"path": "x"}));
    let usage = message.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (9, 12, 5, 2));
    assert_eq!(message.response_id.as_deref(), Some("msg_1"));

    let received = server.received();
    let head = received[0].head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/messages http/1.1"), "{head}");
    for line in
        ["x-api-key: sk-ant-secret", "anthropic-version: 2023-06-01", "content-type: application/json"]
    {
        assert!(head.contains(line), "{line} in {head}");
    }
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!((&body["stream"], &body["model"]), (&json!(true), &json!("claude-test")));
}

/// B-115, B-117.
#[tokio::test]
async fn the_channel_form_ends_with_one_terminal_event() {
    let server = Server::start(Answer::stream(REPLY)).await;
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    stream_to(&AnthropicProvider::new(), &request(&server.url), &tx, &CancellationToken::new())
        .await
        .unwrap();
    drop(tx);
    let mut events = vec![];
    while let Some(event) = rx.recv().await {
        events.push(event);
    }
    let ends =
        events.iter().filter(|e| matches!(e, OwnedStreamEvent::Done { .. } | OwnedStreamEvent::Error { .. }));
    assert_eq!(ends.count(), 1);
    assert!(matches!(events.last(), Some(OwnedStreamEvent::Done { .. })));
}

/// REQ-167.
#[tokio::test]
async fn a_refusal_is_an_error_that_names_who_what_and_how_long() {
    let body =
        br#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down, sk-ant-secret"}}"#;
    let answer =
        Answer::new(429, "application/json", body).header("retry-after", "17").header("request-id", "req_7");
    let server = Server::start(answer).await;
    let error = run(&request(&server.url)).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(17)));
    assert_eq!(error.request_id(), Some("req_7"));
    let text = error.to_string();
    assert!(text.contains("anthropic (claude-test) answered 429: slow down"), "{text}");
    assert!(!format!("{text} {error:?}").contains("sk-ant-secret"));
}

/// B-120, B-154.
#[tokio::test]
async fn a_stream_that_breaks_off_keeps_what_had_come_and_may_be_retried() {
    let half = &REPLY[..REPLY.find("\n\nevent: content_block_stop").unwrap() + 2];
    for end in [End::Clean, End::Broken] {
        let server = Server::start(Answer::stream(half).ending(end)).await;
        let (log, result) = run(&request(&server.url)).await;
        let error = result.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        assert_eq!(log.partial_content(), [Content::text("Hello")]);
        assert_eq!(log.usage().cache_read, 5);
    }
}

/// REQ-043, B-154.
#[tokio::test]
async fn an_abort_ends_the_call_at_once_and_keeps_the_usage() {
    let half = &REPLY[..REPLY.find("\n\nevent: content_block_stop").unwrap() + 2];
    let server = Server::start(Answer::stream(half).ending(End::Silent)).await;
    let cancel = CancellationToken::new();
    let mut log = ReplyLog::new();
    let stop = cancel.clone();
    let mut sink = |event: agent_core::StreamEvent<'_>| {
        log.push(&event);
        if matches!(event, agent_core::StreamEvent::TextDelta { .. }) {
            stop.cancel();
        }
    };
    let request = request(&server.url);
    let provider = AnthropicProvider::new();
    let call = provider.stream(&request, &mut sink, &cancel);
    let error = tokio::time::timeout(Duration::from_secs(30), call).await.expect("ends at once").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(log.snapshot().text(), "Hello");
    assert_eq!(log.usage().input, 9);
}

/// D35's case.
#[tokio::test]
async fn a_gateway_that_answers_with_one_body_is_understood() {
    let body = br#"{"id":"m","model":"claude-test","content":[{"type":"text","text":"whole"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}"#;
    let server = Server::start(Answer::new(200, "application/json", body)).await;
    let (log, end) = run(&request(&server.url)).await;
    assert_eq!(end.unwrap().stop_reason, StopReason::Stop);
    assert_eq!(log.snapshot().text(), "whole");
}

/// B-155, B-156.
#[tokio::test]
async fn headers_and_body_can_be_changed_by_the_caller() {
    let server = Server::start(Answer::stream(REPLY)).await;
    let mut request = request(&server.url);
    request.options.headers.insert("Anthropic-Version".into(), Some("2099-01-01".into()));
    request.options.headers.insert("X-Api-Key".into(), None);
    request.options.request_hook = Some(Arc::new(|body| {
        let mut body = body.clone();
        body["metadata"] = json!({"user_id": "u"});
        Some(body)
    }));
    run(&request).await.1.unwrap();
    let received = server.received();
    let head = received[0].head.to_ascii_lowercase();
    assert!(head.contains("anthropic-version: 2099-01-01") && !head.contains("x-api-key"), "{head}");
    let body: Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(body["metadata"]["user_id"], "u");
}

/// The vendor itself. Reads the key from the environment; without one it says so and passes.
#[tokio::test]
#[ignore = "calls the vendor and costs money"]
#[expect(clippy::disallowed_methods, reason = "a live test takes its key from the environment")]
async fn live_the_vendor_answers() {
    let Ok(key) = std::env::var("ANTHROPIC_API_KEY") else {
        println!("skipped: ANTHROPIC_API_KEY is not set");
        return;
    };
    let mut request = request("https://api.anthropic.com");
    request.model = Arc::new(agent_providers::catalogue::configure(ModelConfig::anthropic(
        "claude-haiku-4-5",
        "Haiku",
        key,
    )));
    request.options.max_tokens = Some(100);
    let (log, end) = run(&request).await;
    end.unwrap();
    assert!(log.usage().output > 0);
}
