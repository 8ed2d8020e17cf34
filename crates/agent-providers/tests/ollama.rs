//! Ollama over real loopback HTTP: what is sent, what is read, what an error says.

#![cfg(feature = "ollama")]
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

use agent_core::{ErrorKind, ModelConfig, StopReason, ThinkingLevel, complete};
use agent_providers::OllamaProvider;
use serde_json::json;
use support::{Act, Server, call, head, hello, piece};

fn line(value: serde_json::Value) -> Act {
    piece(&format!("{value}\n"))
}

fn model(server: &Server) -> ModelConfig {
    ModelConfig::ollama("qwen3").with_base_url(format!("http://{}", server.address))
}

/// D34, REQ-167, REQ-043.
#[tokio::test]
async fn a_reply_with_thinking_text_calls_and_usage_is_streamed_and_folded() {
    let said =
        |message: serde_json::Value| line(json!({"model": "qwen3", "message": message, "done": false}));
    let script = vec![
        head(200, "application/x-ndjson"),
        said(json!({"role": "assistant", "content": "", "thinking": "hm"})),
        said(json!({"role": "assistant", "content": "I will "})),
        said(json!({"role": "assistant", "content": "look."})),
        said(
            json!({"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"at": "src"}}}]}),
        ),
        line(json!({"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": true,
            "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 5})),
        Act::End,
    ];
    let server = Server::start(vec![script]).await;
    let mut request = hello(model(&server));
    request.options.thinking_level = ThinkingLevel::High;
    let message = complete(&OllamaProvider::new(), &request, &Default::default()).await.unwrap();
    assert_eq!((message.text().as_str(), message.stop_reason), ("I will look.", StopReason::ToolUse));
    let call = message.tool_calls().next().unwrap();
    assert_eq!((call.name.as_str(), call.arguments.text()), ("look", "{\"at\":\"src\"}"));
    assert!(!call.id.as_str().is_empty());
    assert_eq!((message.usage.input, message.usage.output), (11, 5));
    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /api/chat HTTP/1.1");
    assert!(!asked.headers.to_lowercase().contains("authorization"));
    assert_eq!(asked.json()["think"], true);
    assert_eq!(asked.json()["options"].get("num_ctx"), None);
}

/// REQ-167.
#[tokio::test]
async fn errors_say_what_to_do() {
    let missing =
        vec![head(404, "application/json"), piece(r#"{"error":"model 'qwen3' not found"}"#), Act::End];
    let server = Server::start(vec![missing]).await;
    let outcome = call(&OllamaProvider::new(), &hello(model(&server))).await;
    assert_eq!(outcome.error().kind(), ErrorKind::ModelNotFound);
    assert!(outcome.error().to_string().contains("ollama pull qwen3"), "{}", outcome.error());

    let broken = vec![
        head(200, "application/x-ndjson"),
        line(json!({"message": {"content": "half"}, "done": false})),
        line(json!({"error": "runner stopped"})),
        Act::End,
    ];
    let server = Server::start(vec![broken]).await;
    let outcome = call(&OllamaProvider::new(), &hello(model(&server))).await;
    assert_eq!((outcome.error().kind(), outcome.text().as_str()), (ErrorKind::Network, "half"));
}

/// B-120.
#[tokio::test]
async fn a_stream_without_its_last_line_is_a_network_error() {
    for end in [Act::Cut, Act::End] {
        let script = vec![
            head(200, "application/x-ndjson"),
            line(json!({"message": {"content": "half"}, "done": false})),
            piece("{\"mess"),
            end,
        ];
        let server = Server::start(vec![script]).await;
        let outcome = call(&OllamaProvider::new(), &hello(model(&server))).await;
        assert_eq!((outcome.error().kind(), outcome.text().as_str()), (ErrorKind::Network, "half"));
    }
}
