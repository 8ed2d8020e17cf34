//! OpenAI Responses, there and on Azure, over real loopback HTTP: what is sent, what is read, what an error says.

#![cfg(feature = "azure")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    CancellationToken, Content, ErrorKind, Message, ModelConfig, ModelRequest, OwnedStreamEvent,
    ProviderError, StopReason, StreamEvent, StreamProvider, ThinkingLevel, ToolDefinition, complete,
};
use agent_providers::{AzureOpenAiProvider, OpenAiResponsesProvider, ProviderRegistry};
use serde_json::{Value, json};
use support::{Act, Server, call, head, hello, piece, sse};
use tokio::sync::Notify;

const KEY: &str = "sk-test-0123456789";

fn frame(event: Value) -> Act {
    piece(&format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
}

fn text(delta: &str) -> Act {
    frame(
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": delta}),
    )
}

fn completed() -> Act {
    frame(
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 120}}}),
    )
}

fn model(server: &Server) -> ModelConfig {
    ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", KEY).with_base_url(server.url())
}

fn answer() -> Vec<Act> {
    let item = |at: u64, item: Value| {
        frame(json!({"type": "response.output_item.done", "output_index": at, "item": item}))
    };
    vec![
        sse(),
        frame(json!({"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5.5-2026"}})),
        frame(json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0,
            "delta": "Let me see."})),
        item(
            0,
            json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "sealed",
                "summary": [{"type": "summary_text", "text": "Let me see."}]}),
        ),
        item(
            1,
            json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
                "arguments": "{\"at\":\"src\"}"}),
        ),
        completed(),
        Act::End,
    ]
}

/// REQ-123, REQ-131, REQ-167.
#[tokio::test]
async fn a_reply_is_streamed_folded_and_sent_back_as_it_came() {
    let server = Server::start(vec![answer(), vec![sse(), text("Done."), completed(), Act::End]]).await;
    let mut request = hello(model(&server));
    request.system_prompt = "Be brief.".into();
    request.options.thinking_level = ThinkingLevel::High;
    request.tools = vec![ToolDefinition::new("look", "Looks", json!({"type": "object"}))].into();
    let provider = OpenAiResponsesProvider::new();
    let message = complete(&provider, &request, &CancellationToken::new()).await.unwrap();
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!(message.response_id.as_deref(), Some("resp_1"));
    assert!(message.content.contains(&Content::thinking("Let me see.", Some("sealed".into()))));
    let usage = message.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.reasoning), (40, 20, 60, 5));

    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /v1/responses HTTP/1.1");
    assert!(asked.headers.contains(&format!("authorization: Bearer {KEY}")), "{}", asked.headers);
    let body = asked.json();
    assert_eq!((&body["instructions"], &body["store"]), (&json!("Be brief."), &json!(false)));
    assert_eq!(body["reasoning"]["effort"], "high");

    let entry = |message: Message| agent_core::Entry::from(agent_core::AgentMessage::from(message));
    let result =
        agent_core::ToolResultMessage::new("call_1".into(), "look".into(), vec![Content::text("lib.rs")]);
    request.history.push_exchange(entry(message.into()), vec![entry(result.into())]).unwrap();
    complete(&provider, &request, &CancellationToken::new()).await.unwrap();
    let later = &server.asked()[1];
    let expected = json!([
        {"role": "user", "content": "hello"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Let me see."}],
            "encrypted_content": "sealed"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{\"at\":\"src\"}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "lib.rs"},
    ]);
    assert_eq!(later.json()["input"], expected);
    assert!(later.body.starts_with(&asked.body[..asked.body.len() - 2]), "the prefix stays");
}

/// REQ-124, B-158.
#[tokio::test]
async fn azure_is_asked_at_its_own_address_with_its_own_header() {
    let server = Server::start(vec![answer()]).await;
    let host = format!("http://{}", server.address);
    for (base, line) in [
        (host.clone(), "POST /openai/v1/responses HTTP/1.1"),
        (
            format!("{host}/openai/deployments/my-gpt"),
            "POST /openai/deployments/my-gpt/responses?api-version=2025-01-01-preview HTTP/1.1",
        ),
    ] {
        let request = hello(ModelConfig::azure(base, "my-gpt", KEY));
        let message =
            complete(&AzureOpenAiProvider::new(), &request, &CancellationToken::new()).await.unwrap();
        assert_eq!(message.tool_calls().next().unwrap().id.as_str(), "call_1");
        let asked = server.asked().pop().unwrap();
        assert_eq!(asked.line, line);
        assert!(
            asked.headers.contains(&format!("api-key: {KEY}")) && !asked.headers.contains("authorization")
        );
        assert_eq!(asked.json()["model"], "my-gpt");
    }
}

/// REQ-186, REQ-125.
#[tokio::test]
async fn the_registry_finds_both_by_their_protocol() {
    let registry = ProviderRegistry::default();
    let azure = ModelConfig::azure("https://res.openai.azure.com", "d", KEY);
    let openai = ModelConfig::openai_responses("gpt-5.5", "GPT", KEY);
    assert_eq!(registry.provider_id_for(&azure), "azure_openai");
    assert_eq!(registry.provider_id_for(&openai), "openai_responses");
    assert!(registry.check(&azure).is_ok() && registry.check(&openai).is_ok());
}

/// Each delta is seen before the next is sent: a provider that waited for the whole would wait for ever.
#[tokio::test]
async fn each_delta_is_passed_on_before_the_next_is_sent() {
    let gates: Vec<Arc<Notify>> = (0..4).map(|_| Arc::new(Notify::new())).collect();
    let mut script = vec![sse()];
    for (n, gate) in gates.iter().enumerate() {
        script.push(text(&format!("{n};")));
        script.push(Act::Wait(Arc::clone(gate)));
    }
    script.extend([completed(), Act::End]);
    let server = Server::start(vec![script]).await;
    let request = hello(model(&server));
    let (mut seen, mut gates) = (Vec::new(), gates.into_iter());
    let mut sink = |event: StreamEvent<'_>| {
        if let StreamEvent::TextDelta { delta, .. } = event {
            seen.push(delta.to_owned());
            gates.next().unwrap().notify_one();
        }
    };
    let token = CancellationToken::new();
    let provider = OpenAiResponsesProvider::new();
    let asked = provider.stream(&request, &mut sink, &token);
    tokio::time::timeout(Duration::from_secs(30), asked).await.expect("a delta was held back").unwrap();
    assert_eq!(seen, ["0;", "1;", "2;", "3;"]);
}

async fn refused(
    provider: &dyn StreamProvider,
    status: u16,
    body: &str,
    request: &ModelRequest,
) -> ProviderError {
    let mut request = request.clone();
    let server = Server::start(vec![vec![head(status, "application/json"), piece(body), Act::End]]).await;
    request.model = ModelConfig::clone(&request.model).with_base_url(server.url()).into();
    let outcome = call(provider, &request).await;
    assert!(outcome.events.is_empty());
    match outcome.end {
        Err(error) => error,
        Ok(_) => panic!("a refusal was taken for a reply"),
    }
}

/// REQ-167, REQ-075, REQ-076.
#[tokio::test]
async fn an_error_answer_keeps_what_the_vendor_said_and_no_key() {
    let error = |message: &str, code: &str| {
        json!({"error": {"message": message, "type": "invalid_request_error", "code": code, "param": null}})
            .to_string()
    };
    let token = "eyJhbGciOiJub25lIn0.eyJhdWQiOiJ4In0.c2lnbmF0dXJl";
    let openai = hello(ModelConfig::openai_responses("m", "M", KEY));
    let azure = hello(ModelConfig::azure("https://h", "m", KEY));
    let entra = hello(ModelConfig::azure("https://h", "m", token));
    for (status, body, kind) in [
        (
            400,
            error("Your input exceeds the context window of this model.", "context_length_exceeded"),
            ErrorKind::ContextOverflow,
        ),
        (
            401,
            error(&format!("Incorrect API key provided: {KEY} or {token}"), "invalid_api_key"),
            ErrorKind::Auth,
        ),
        (404, error("The model does not exist", "model_not_found"), ErrorKind::ModelNotFound),
        (429, error("You exceeded your current quota", "insufficient_quota"), ErrorKind::Quota),
        (429, error("Rate limit reached", "rate_limit_exceeded"), ErrorKind::RateLimited),
        (500, error("Sorry", "server_error"), ErrorKind::Network),
    ] {
        for (provider, request) in [
            (&OpenAiResponsesProvider::new() as &dyn StreamProvider, &openai),
            (&AzureOpenAiProvider::new(), &azure),
            (&AzureOpenAiProvider::new(), &entra),
        ] {
            let error = refused(provider, status, &body, request).await;
            assert_eq!((error.kind(), error.status()), (kind, Some(status)), "{error}");
            let shown = format!("{error} {error:?}");
            let own = request.key().unwrap().expose();
            assert!(!shown.contains(own), "{shown}");
        }
    }
}

/// REQ-167, B-120, B-154.
#[tokio::test]
async fn what_had_arrived_is_kept_when_a_reply_breaks_off() {
    let error = frame(json!({"type": "error", "code": "server_error", "message": "The server broke."}));
    for (script, says) in [
        (vec![sse(), text("half"), error, Act::End], "The server broke."),
        (vec![sse(), text("half"), Act::Cut], ""),
        (vec![sse(), text("half"), Act::End], "response.completed"),
    ] {
        let server = Server::start(vec![script]).await;
        let outcome = call(&OpenAiResponsesProvider::new(), &hello(model(&server))).await;
        assert_eq!(outcome.error().kind(), ErrorKind::Network);
        assert!(outcome.error().to_string().contains(says), "{}", outcome.error());
        assert_eq!(outcome.text(), "half");
    }
}

/// REQ-043.
#[tokio::test]
async fn an_abort_ends_the_call_at_once() {
    let server = Server::start(vec![vec![sse(), text("half"), Act::Stall]]).await;
    let token = CancellationToken::new();
    let mut events: Vec<OwnedStreamEvent> = Vec::new();
    let stop = token.clone();
    let mut sink = |event: StreamEvent<'_>| {
        if let StreamEvent::TextDelta { .. } = event {
            stop.cancel();
        }
        events.push(event.into());
    };
    let request = hello(model(&server));
    let provider = OpenAiResponsesProvider::new();
    let asked = provider.stream(&request, &mut sink, &token);
    let end = tokio::time::timeout(Duration::from_secs(30), asked).await.expect("the abort was not heard");
    assert_eq!(end.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(!events.is_empty());
}

/// B-155, B-156.
#[tokio::test]
async fn headers_and_body_can_be_changed_by_the_caller() {
    let server = Server::start(vec![answer()]).await;
    let mut request = hello(model(&server).with_header("x-project", "own").without_header("authorization"));
    request.options.request_hook = Some(Arc::new(|body| {
        let mut body = body.clone();
        body["service_tier"] = json!("flex");
        Some(body)
    }));
    call(&OpenAiResponsesProvider::new(), &request).await.message();
    let asked = &server.asked()[0];
    assert!(asked.headers.contains("x-project: own") && !asked.headers.contains("authorization"));
    assert_eq!(asked.json()["service_tier"], "flex");
}
