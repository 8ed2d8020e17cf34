//! Claude on Vertex AI over real loopback HTTP, against a server that refuses what the real one refuses.

#![cfg(feature = "vertex")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod support;

use std::path::Path;
use std::sync::Arc;

use agent_core::{
    AssistantMessage, Content, ErrorKind, History, Message, ModelConfig, ModelRequest, StopReason,
    StreamProvider, ThinkingLevel, ToolDefinition,
};
use agent_providers::{AnthropicVertexProvider, ProviderRegistry, catalogue};
use serde_json::{Value, json};
use support::{Act, Asked, Outcome, Server, call, head, hello};

const TOKEN: &str = "ya29.token-of-the-test";
const PATH: &str = "POST /v1/projects/my-project/locations/europe-west1/publishers/anthropic/models/\
                    claude-sonnet-4-5@20250929:streamRawPredict HTTP/1.1";

fn model(server: &Server) -> ModelConfig {
    let model = ModelConfig::vertex_claude("my-project", "europe-west1", "claude-sonnet-4-5@20250929");
    model.with_base_url(format!("http://{}", server.address)).with_api_key(TOKEN)
}

/// Returns what the real service says about a request that it does not take.
fn fault(asked: &Asked) -> Option<Value> {
    let body = asked.json();
    let headers = asked.headers.to_ascii_lowercase();
    let of_anthropic = |message: String| {
        Some(json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}))
    };
    if !headers.contains("authorization: bearer ya29.") {
        return Some(
            json!([{"error": {"code": 401, "message": "Request is missing required authentication credential.",
            "status": "UNAUTHENTICATED"}}]),
        );
    }
    if asked.line != PATH {
        return Some(json!({"error": {"code": 404, "message": "not found", "status": "NOT_FOUND"}}));
    }
    if headers.contains("x-api-key") || headers.contains("\nanthropic-version") {
        return of_anthropic("a header of the first-party API".to_owned());
    }
    if body["anthropic_version"] != "vertex-2023-10-16" {
        return of_anthropic("anthropic_version: Field required".to_owned());
    }
    if body["stream"] != true {
        return of_anthropic("stream: streamRawPredict needs true".to_owned());
    }
    const KNOWN: [&str; 14] = [
        "anthropic_version",
        "max_tokens",
        "stream",
        "messages",
        "system",
        "tools",
        "tool_choice",
        "thinking",
        "temperature",
        "stop_sequences",
        "output_config",
        "container",
        "metadata",
        "top_p",
    ];
    let extra = body.as_object()?.keys().find(|name| !KNOWN.contains(&name.as_str()));
    extra.and_then(|name| of_anthropic(format!("{name}: Extra inputs are not permitted")))
}

async fn strict(status: u16, kind: &'static str, body: &[u8]) -> Server {
    let script = vec![Act::Refuse(fault), head(status, kind), Act::Piece(body.to_vec()), Act::End];
    Server::start(vec![script]).await
}

const REPLY: &str = concat!(
    r#"data: {"type":"message_start","message":{"id":"msg_vrtx_1","model":"claude-sonnet-4-5@20250929","usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":3,"output_tokens":1}}}"#,
    "\n\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Moin"}}"#,
    "\n\n",
    r#"data: {"type":"content_block_stop","index":0}"#,
    "\n\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}"#,
    "\n\n",
    r#"data: {"type":"message_stop"}"#,
    "\n\n",
);

/// The mock refuses a request of the first-party API, so that the other tests can fail.
#[tokio::test]
async fn the_mock_refuses_a_body_of_the_first_party_api() {
    for (edit, says) in [
        (json!({"model": "m"}), "model: Extra inputs"),
        (json!({"anthropic_version": null}), "anthropic_version: Field required"),
        (json!({"stream": false}), "stream"),
    ] {
        let server = strict(200, "text/event-stream", REPLY.as_bytes()).await;
        let mut request = hello(model(&server));
        request.options.request_hook = Some(Arc::new(move |body: &Value| {
            let mut body = body.clone();
            for (name, value) in edit.as_object().unwrap() {
                body[name] = value.clone();
            }
            Some(body)
        }));
        let outcome = call(&AnthropicVertexProvider::new(), &request).await;
        assert!(outcome.error().to_string().contains(says), "{}", outcome.error());
        assert_eq!(outcome.error().kind(), ErrorKind::Api);
    }
}

/// REQ-121.
#[tokio::test]
async fn a_request_with_everything_is_taken() {
    let server = strict(200, "text/event-stream", REPLY.as_bytes()).await;
    let (mut history, _) = History::repaired([agent_core::AgentMessage::user("hello")]);
    let mut reply = AssistantMessage::new("anthropic_vertex", "claude-sonnet-4-5@20250929", StopReason::Stop);
    reply.content = vec![Content::text("yes?")];
    history.push(Message::Assistant(reply).into()).unwrap();
    history.push("and now?".into()).unwrap();
    let mut request = ModelRequest::new(catalogue::configure(model(&server)), history);
    request.system_prompt = "Be brief.".into();
    request.tools = vec![ToolDefinition::new("look", "Looks.", json!({"type": "object"}))].into();
    request.options.thinking_level = ThinkingLevel::High;
    request.options.headers.insert("anthropic-beta".into(), Some("context-1m-2025-08-07".into()));
    let outcome = call(&ProviderRegistry::default(), &request).await;
    assert_eq!(outcome.message().text(), "Moin");
    let usage = outcome.log.usage();
    assert_eq!((usage.input, usage.cache_read, usage.cache_write, usage.output), (10, 4, 3, 7));
    let asked = &server.asked()[0];
    let body = asked.json();
    assert!(asked.headers.contains("anthropic-beta: context-1m-2025-08-07"), "{}", asked.headers);
    assert!(
        asked.body.starts_with(r#"{"anthropic_version":"vertex-2023-10-16","max_tokens":"#),
        "{}",
        asked.body
    );
    assert_eq!(body["thinking"]["type"], "enabled", "{body}");
    for marked in [&body["system"][0], &body["tools"][0], &body["messages"][1]["content"][0]] {
        assert_eq!(marked["cache_control"]["type"], "ephemeral", "{body}");
    }
}

/// The recordings of the Anthropic API, behind the address of Vertex AI.
#[tokio::test]
async fn the_recordings_of_the_anthropic_api_are_read_alike() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(root.join("MANIFEST.json")).unwrap()).unwrap();
    let mut seen = 0;
    for case in manifest["cases"].as_array().unwrap().iter().filter(|c| c["protocol"] == "anthropic") {
        let name = case["case"].as_str().unwrap();
        let folder = root.join("anthropic");
        let body = std::fs::read(folder.join(case["file"].as_str().unwrap())).unwrap();
        let expected: Value =
            serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.expected.json"))).unwrap())
                .unwrap();
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        let kind = if name.starts_with("err") || name == "json-body" {
            "application/json"
        } else {
            "text/event-stream"
        };
        let server = strict(status, kind, &body).await;
        let outcome = call(&AnthropicVertexProvider::new(), &hello(model(&server))).await;
        check(name, &expected, &outcome);
        seen += 1;
    }
    assert!(seen >= 12, "{seen} recordings");
}

#[track_caller]
fn check(name: &str, expected: &Value, outcome: &Outcome) {
    let content = outcome.log.partial_content();
    let text: String = content.iter().filter_map(Content::as_text).collect();
    assert_eq!(text, expected["text"].as_str().unwrap(), "{name}");
    let signatures: Vec<&str> = content
        .iter()
        .filter_map(|c| if let Content::Thinking(t) = c { Some(t) } else { None })
        .filter(|t| !t.redacted)
        .filter_map(|t| t.signature.as_deref())
        .collect();
    let wanted = expected["thinking_signatures"].as_array().cloned().unwrap_or_default();
    assert_eq!(signatures, wanted.iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>(), "{name}");
    let fails =
        !expected["error"].is_null() || expected["complete"] == false || expected["stop_reason"] == "refusal";
    match &outcome.end {
        Ok(done) => {
            assert!(!fails, "{name}");
            assert_eq!(done.vendor_reason.as_deref(), expected["stop_reason"].as_str(), "{name}");
            let calls = expected["tool_calls"].as_array().unwrap();
            assert_eq!(outcome.message().tool_calls().count(), calls.len(), "{name}");
            let usage = outcome.log.usage();
            let count = |key: &str| expected["usage"][key].as_u64().unwrap_or(0);
            assert_eq!((usage.input, usage.output), (count("input"), count("output")), "{name}");
            assert_eq!(
                (usage.cache_read, usage.cache_write),
                (count("cache_read"), count("cache_write")),
                "{name}"
            );
        }
        Err(error) => {
            assert!(fails, "{name}: {error}");
            let wanted = match name {
                "err400-overflow" => ErrorKind::ContextOverflow,
                "err401-key" => ErrorKind::Auth,
                "err404-model" => ErrorKind::ModelNotFound,
                "err429-rate-limit" => ErrorKind::RateLimited,
                "refusal" => ErrorKind::Api,
                _ => ErrorKind::Network,
            };
            assert_eq!(error.kind(), wanted, "{name}: {error}");
        }
    }
}

/// Errors of both vendors, before the reply and in its middle.
#[tokio::test]
async fn errors_of_google_and_of_anthropic_have_their_kinds() {
    let google = |code: u16, status: &str, message: &str| json!({"error": {"code": code, "message": message, "status": status}});
    let anthropic =
        |kind: &str, message: &str| json!({"type": "error", "error": {"type": kind, "message": message}});
    for (status, body, kind, advice) in [
        (403, google(403, "PERMISSION_DENIED", "denied"), ErrorKind::Auth, "roles/aiplatform.user"),
        (
            404,
            google(404, "NOT_FOUND", "Publisher Model was not found"),
            ErrorKind::ModelNotFound,
            "Model Garden",
        ),
        (429, google(429, "RESOURCE_EXHAUSTED", "Resource exhausted"), ErrorKind::RateLimited, ""),
        (429, json!([google(429, "RESOURCE_EXHAUSTED", "Resource exhausted")]), ErrorKind::RateLimited, ""),
        (529, anthropic("overloaded_error", "Overloaded"), ErrorKind::Network, ""),
        (
            400,
            anthropic("invalid_request_error", "prompt is too long: 3 tokens > 2 maximum"),
            ErrorKind::ContextOverflow,
            "",
        ),
        (404, anthropic("not_found_error", "no"), ErrorKind::ModelNotFound, "Model Garden"),
    ] {
        let server = strict(status, "application/json", body.to_string().as_bytes()).await;
        let outcome = call(&AnthropicVertexProvider::new(), &hello(model(&server))).await;
        let error = outcome.error();
        assert_eq!(error.kind(), kind, "{body}: {error}");
        assert!(error.to_string().contains(advice), "{error}");
    }

    let (start, _) = REPLY.split_once(r#"data: {"type":"content_block_stop""#).unwrap();
    for (body, kind) in [
        (google(429, "RESOURCE_EXHAUSTED", "Resource exhausted"), ErrorKind::RateLimited),
        (google(503, "UNAVAILABLE", "try again"), ErrorKind::Network),
        (anthropic("overloaded_error", "Overloaded"), ErrorKind::Network),
    ] {
        for frame in [format!("{start}data: {body}\n\n"), format!("{start}{body}\n")] {
            let server = strict(200, "text/event-stream", frame.as_bytes()).await;
            let outcome = call(&AnthropicVertexProvider::new(), &hello(model(&server))).await;
            assert_eq!(outcome.error().kind(), kind, "{frame}: {}", outcome.error());
            let kept: String = outcome.log.partial_content().iter().filter_map(Content::as_text).collect();
            assert_eq!(kept, "Moin");
        }
    }
}

/// REQ-042.
#[tokio::test]
async fn the_check_sends_nothing_and_says_what_is_missing() {
    let provider = AnthropicVertexProvider::new();
    assert_eq!(provider.provider_id(), "anthropic_vertex");
    let claude = ModelConfig::vertex_claude("p", "global", "claude-opus-4-8");
    provider.check(&claude).unwrap();
    ProviderRegistry::default().check(&claude).unwrap();
    let error = provider.check(&ModelConfig::vertex_claude("", "global", "m")).unwrap_err();
    assert!(error.to_string().contains("vertex_claude"), "{error}");
}

/// The catalogue's entries of Anthropic's own API describe the same models on Vertex AI.
#[test]
fn the_catalogue_knows_the_models_of_the_vendor() {
    let own = catalogue::find("anthropic", "claude-sonnet-4-5").unwrap();
    let here = catalogue::configure(ModelConfig::vertex_claude("p", "global", "claude-sonnet-4-5@20250929"));
    assert_eq!((here.context_window, here.max_tokens), (own.context_window, own.max_tokens));
    assert_eq!(here.cost, own.cost);
    let completed =
        catalogue::complete(&ModelConfig::vertex_claude("p", "global", "claude-sonnet-4-5@20250929"));
    assert_eq!(completed.unwrap().cost, own.cost);
}
