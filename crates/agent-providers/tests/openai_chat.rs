//! Chat Completions over real loopback HTTP: what is sent, what is read, what an error says.

#![cfg(feature = "openai-chat")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly, and says so when it skips"
)]

mod support;

use agent_core::{Content, ErrorKind, ModelConfig, StopReason, ThinkingLevel, ToolDefinition, complete};
use agent_providers::OpenAiChatProvider;
use serde_json::json;
use support::{Act, Server, call, head, hello, piece, sse};

fn frame(chunk: serde_json::Value) -> Act {
    piece(&format!("data: {chunk}\n\n"))
}

fn delta(delta: serde_json::Value) -> Act {
    frame(json!({"id": "chatcmpl-1", "model": "gpt-5-2026", "choices": [{"index": 0, "delta": delta}]}))
}

/// REQ-041, REQ-131, REQ-167.
#[tokio::test]
async fn a_reply_with_thinking_text_calls_and_usage_is_streamed_and_folded() {
    let script = vec![
        sse(),
        delta(json!({"role": "assistant", "content": "", "reasoning_content": "Let me "})),
        delta(json!({"reasoning_content": "see."})),
        delta(json!({"content": "I will "})),
        delta(json!({"content": "look."})),
        delta(
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}]}),
        ),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"at\":"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"src\"}"}}]})),
        frame(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})),
        frame(
            json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 5}}}),
        ),
        piece("data: [DONE]\n\n"),
        Act::End,
    ];
    let server = Server::start(vec![script]).await;
    let mut request = hello(ModelConfig::openai("gpt-5", "GPT-5", "sk-test").with_base_url(server.url()));
    request.system_prompt = "Be brief.".into();
    request.options.thinking_level = ThinkingLevel::High;
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
    let message = complete(&OpenAiChatProvider::new(), &request, &Default::default()).await.unwrap();

    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!((message.provider.as_str(), message.model.as_str()), ("openai", "gpt-5"));
    assert_eq!(message.response_id.as_deref(), Some("chatcmpl-1"));
    assert_eq!(message.text(), "I will look.");
    assert_eq!(message.content[0], Content::thinking("Let me see.", Some("reasoning_content".into())));
    let call = message.tool_calls().next().unwrap();
    assert_eq!(
        (call.id.as_str(), call.name.as_str(), call.arguments.text()),
        ("call_1", "look", "{\"at\":\"src\"}")
    );
    let usage = message.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.reasoning), (40, 20, 60, 5));

    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    assert!(asked.headers.contains("authorization: Bearer sk-test"), "{}", asked.headers);
    assert!(asked.headers.contains("content-type: application/json"));
    let body = asked.json();
    assert_eq!(body["stream"], true);
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body["reasoning_effort"], "high");
    assert_eq!(body["messages"][1], json!({"role": "user", "content": "hello"}));
    assert_eq!(body["tools"][0]["function"]["name"], "look");
}

/// REQ-167, REQ-075, REQ-076.
#[tokio::test]
async fn an_error_answer_keeps_what_the_vendor_said() {
    let error = |message: &str, code: &str| {
        json!({"error": {"message": message, "type": "t", "code": code}}).to_string()
    };
    let long = "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.";
    for (status, body, kind) in [
        (400, error(long, "context_length_exceeded"), ErrorKind::ContextOverflow),
        (401, error("Incorrect API key provided", "invalid_api_key"), ErrorKind::Auth),
        (404, error("The model `m` does not exist", "model_not_found"), ErrorKind::ModelNotFound),
        (429, error("You exceeded your current quota", "insufficient_quota"), ErrorKind::Quota),
        (429, error("Rate limit reached", "rate_limit_exceeded"), ErrorKind::RateLimited),
        (503, "overloaded".to_owned(), ErrorKind::Network),
    ] {
        let server =
            Server::start(vec![vec![head(status, "application/json"), piece(&body), Act::End]]).await;
        let model = ModelConfig::openai("m", "M", "sk-test").with_base_url(server.url());
        let outcome = call(&OpenAiChatProvider::new(), &hello(model)).await;
        let error = outcome.error();
        assert_eq!((error.kind(), error.status()), (kind, Some(status)), "{error}");
        assert!(body.contains(&error.context().unwrap().message), "{error}");
        assert!(outcome.events.is_empty());
    }
}

/// D18, REQ-167.
#[tokio::test]
async fn an_error_in_the_middle_of_the_stream_is_an_error_and_what_had_arrived_is_kept() {
    let server = Server::start(vec![vec![
        sse(),
        delta(json!({"content": "half"})),
        frame(json!({"error": {"message": "The server had an error", "type": "server_error"}})),
        piece("data: [DONE]\n\n"),
        Act::End,
    ]])
    .await;
    let model = ModelConfig::local(server.url(), "m", "sk-test");
    let outcome = call(&OpenAiChatProvider::new(), &hello(model)).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Network);
    assert!(outcome.error().to_string().contains("The server had an error"));
    assert_eq!(outcome.text(), "half");
}
