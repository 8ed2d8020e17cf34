//! Gemini over real loopback HTTP: what is sent, what is read and when, what an error says.

#![cfg(feature = "google")]
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

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_core::{
    CancellationToken, Content, ErrorKind, ModelConfig, ProviderError, StopReason, StreamEvent,
    StreamProvider, ThinkingLevel, ToolDefinition, complete,
};
use agent_providers::{GoogleProvider, Transport, TransportConfig};
use serde_json::{Value, json};
use support::{Act, Server, call, call_until, head, hello, piece, sse};
use tokio::sync::Notify;

const KEY: &str = "AIza-very-secret-key";

fn frame(value: Value) -> Act {
    piece(&format!("data: {value}\r\n\r\n"))
}

fn said(parts: Value) -> Act {
    frame(json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": "gemini-3.5-flash-001", "responseId": "r-1"}))
}

fn last(reason: &str) -> Act {
    frame(json!({"candidates": [{"finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 20,
            "thoughtsTokenCount": 5, "totalTokenCount": 125}}))
}

fn model(server: &Server) -> ModelConfig {
    ModelConfig::google("gemini-3.5-flash", "Flash", KEY).with_base_url(format!("http://{}", server.address))
}

/// REQ-120, REQ-043, B-152.
#[tokio::test]
async fn a_reply_with_thinking_text_and_calls_is_streamed_and_goes_back_signed() {
    let first = vec![
        sse(),
        said(json!([{"text": "Let me see.", "thought": true}])),
        said(json!([{"text": "I will "}])),
        said(json!([{"text": "look."}])),
        said(
            json!([{"functionCall": {"id": "s1", "name": "look", "args": {"at": "src"}}, "thoughtSignature": "c2lnbmVk"}]),
        ),
        last("STOP"),
        Act::End,
    ];
    let second = vec![sse(), said(json!([{"text": "Done."}])), last("STOP"), Act::End];
    let server = Server::start(vec![first, second]).await;
    let mut request = hello(model(&server));
    request.tools = vec![ToolDefinition::new("look", "Looks.", json!({"type": "object"}))].into();
    request.options.thinking_level = ThinkingLevel::High;
    let message = complete(&GoogleProvider::new(), &request, &CancellationToken::new()).await.unwrap();
    assert_eq!((message.text().as_str(), message.stop_reason), ("I will look.", StopReason::ToolUse));
    assert_eq!(message.content[0], Content::thinking("Let me see.", None));
    assert_eq!(message.response_id.as_deref(), Some("r-1"));
    let usage = message.usage;
    assert_eq!((usage.input, usage.cache_read, usage.output, usage.reasoning), (40, 60, 25, 5));

    let asked = &server.asked()[0];
    assert_eq!(asked.line, "POST /v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse HTTP/1.1");
    assert!(asked.headers.contains(&format!("x-goog-api-key: {KEY}")), "{}", asked.headers);
    assert!(!asked.body.contains(KEY));
    let body = asked.json();
    assert_eq!(body["contents"], json!([{"role": "user", "parts": [{"text": "hello"}]}]));
    assert_eq!(body["generationConfig"]["thinkingConfig"]["thinkingLevel"], "HIGH");
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["name"], "look");

    let calls: Vec<_> = message.tool_calls().map(|c| c.id.clone()).collect();
    let result =
        agent_core::ToolResultMessage::new(calls[0].clone(), "look".into(), vec![Content::text("a file")]);
    let entry =
        |message: agent_core::Message| agent_core::Entry::from(agent_core::AgentMessage::from(message));
    let mut own = message.clone();
    own.api = Some(request.model.api);
    own.provider.clone_from(&request.model.provider);
    own.model.clone_from(&request.model.id);
    request.history.push_exchange(entry(own.into()), vec![entry(result.into())]).unwrap();
    let message = complete(&GoogleProvider::new(), &request, &CancellationToken::new()).await.unwrap();
    assert_eq!(message.text(), "Done.");
    let body = server.asked()[1].json();
    assert_eq!(
        body["contents"][1]["parts"][2],
        json!({"functionCall": {"id": "s1", "name": "look", "args": {"at": "src"}}, "thoughtSignature": "c2lnbmVk"})
    );
    assert_eq!(
        body["contents"][2],
        json!({"role": "user", "parts": [{"functionResponse": {"id": "s1", "name": "look", "response": {"output": "a file"}}}]})
    );
}

/// REQ-043.
#[tokio::test]
async fn each_delta_is_seen_before_the_next_one_is_sent() {
    let gates: Vec<Arc<Notify>> = (0..4).map(|_| Arc::new(Notify::new())).collect();
    let mut script = vec![sse()];
    for (n, gate) in gates.iter().enumerate() {
        script.push(Act::Wait(Arc::clone(gate)));
        script.push(said(json!([{"text": format!("{n} ")}])));
    }
    script.extend([last("STOP"), Act::End]);
    let server = Server::start(vec![script]).await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (request, log) = (hello(model(&server)), Arc::clone(&seen));
    let streaming = tokio::spawn(async move {
        let mut sink = |event: StreamEvent<'_>| {
            if let StreamEvent::TextDelta { delta, .. } = event {
                log.lock().unwrap().push(delta.to_owned());
            }
        };
        GoogleProvider::new().stream(&request, &mut sink, &CancellationToken::new()).await
    });
    for (n, gate) in gates.iter().enumerate() {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(seen.lock().unwrap().len(), n, "nothing comes before it is sent");
        gate.notify_one();
        tokio::time::timeout(Duration::from_secs(10), async {
            while seen.lock().unwrap().len() <= n {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("a delta is passed on when it comes");
    }
    streaming.await.unwrap().unwrap();
    assert_eq!(seen.lock().unwrap().concat(), "0 1 2 3 ");
}

fn shown(error: &ProviderError) -> String {
    format!("{error} {error:?}")
}

/// REQ-167, REQ-073.
#[tokio::test]
async fn an_error_keeps_what_the_vendor_said_and_shows_no_key() {
    let error = |code: u16, message: &str, details: Value| {
        json!({"error": {"code": code, "message": message, "status": "S", "details": details}}).to_string()
    };
    let long = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).";
    for (status, body, kind) in [
        (400, error(400, long, json!([])), ErrorKind::ContextOverflow),
        (400, error(400, "API key not valid.", json!([{"reason": "API_KEY_INVALID"}])), ErrorKind::Auth),
        (404, error(404, "models/x is not found", json!([])), ErrorKind::ModelNotFound),
        (429, error(429, "Resource exhausted", json!([{"retryDelay": "7s"}])), ErrorKind::RateLimited),
        (503, format!("[{}]", error(503, "The model is overloaded.", json!([]))), ErrorKind::Network),
        (
            403,
            error(403, &format!("Consumer 'api_key:{KEY}' has been suspended."), json!([])),
            ErrorKind::Auth,
        ),
    ] {
        let server = Server::start(vec![vec![
            head(status, "application/json; charset=UTF-8"),
            piece(&body),
            Act::End,
        ]])
        .await;
        let outcome = call(&GoogleProvider::new(), &hello(model(&server))).await;
        let error = outcome.error();
        assert_eq!((error.kind(), error.status()), (kind, Some(status)), "{error}");
        assert!(!shown(error).contains(KEY), "{}", shown(error));
        assert_eq!(error.retry_after(), (status == 429).then(|| Duration::from_secs(7)));
        assert!(error.to_string().starts_with("google (gemini-3.5-flash)"), "{error}");
    }
    let refused = ModelConfig::google("m", "M", KEY).with_base_url("http://127.0.0.1:1");
    let outcome = call(&GoogleProvider::new(), &hello(refused)).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Network);
    assert!(!shown(outcome.error()).contains(KEY));
}

/// B-120, REQ-120.
#[tokio::test]
async fn a_stream_that_breaks_off_or_reports_an_error_keeps_what_had_arrived() {
    let half = || said(json!([{"text": "half"}]));
    let error =
        json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    for (rest, says) in [
        (vec![Act::Cut], ""),
        (vec![Act::End], "finishReason"),
        (vec![piece("data: {\"cand"), Act::Cut], ""),
        (vec![frame(error.clone()), Act::End], "overloaded"),
        // As JSON without a field name, and over several lines.
        (vec![piece(&format!("{error:#}")), Act::End], "overloaded"),
    ] {
        let script = [vec![sse(), half()], rest].concat();
        let server = Server::start(vec![script]).await;
        let outcome = call(&GoogleProvider::new(), &hello(model(&server))).await;
        assert_eq!((outcome.error().kind(), outcome.text().as_str()), (ErrorKind::Network, "half"));
        assert!(outcome.error().to_string().contains(says), "{}", outcome.error());
    }
}

/// D35.
#[tokio::test]
async fn an_answer_in_one_json_body_is_read_as_a_stream() {
    let whole = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]});
    for body in [whole.clone(), json!([whole])] {
        let server = Server::answering("application/json", body.to_string()).await;
        assert_eq!(
            call(&GoogleProvider::new(), &hello(model(&server))).await.message().text(),
            "hi",
            "{body}"
        );
    }
}

/// B-154.
#[tokio::test]
async fn an_abort_ends_the_call_and_keeps_the_tokens_counted_so_far() {
    let counted = frame(json!({"candidates": [{"content": {"parts": [{"text": "half"}]}}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 2, "totalTokenCount": 13}}));
    let server = Server::start(vec![vec![sse(), counted, Act::Stall]]).await;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop.cancel();
    });
    let outcome = call_until(&GoogleProvider::new(), &hello(model(&server)), &cancel).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Cancelled);
    assert_eq!((outcome.log.usage().input, outcome.log.usage().output), (11, 2));
}

/// B-155, B-156.
#[tokio::test]
async fn headers_and_body_can_be_changed_for_a_call() {
    let server =
        Server::start(vec![vec![sse(), said(json!([{"text": "hi"}])), last("STOP"), Act::End]]).await;
    let mut request = hello(model(&server));
    request.options.headers.insert("X-Goog-Api-Key".to_owned(), None);
    request.options.headers.insert("authorization".to_owned(), Some("Bearer other".to_owned()));
    request.options.request_hook = Some(Arc::new(|body: &Value| {
        let mut body = body.clone();
        body["safetySettings"] = json!([]);
        Some(body)
    }));
    call(&GoogleProvider::new(), &request).await.message();
    let asked = &server.asked()[0];
    assert!(
        !asked.headers.contains("x-goog-api-key") && asked.headers.contains("authorization: Bearer other")
    );
    assert_eq!(asked.json()["safetySettings"], json!([]));
}

/// The vendor itself. Reads the key from the environment; without one it says so and passes.
#[tokio::test]
#[ignore = "calls the vendor and costs money"]
#[expect(clippy::disallowed_methods, reason = "a live test takes its key from the environment")]
async fn live_the_vendor_answers() {
    let Ok(key) = std::env::var("GEMINI_API_KEY") else {
        println!("skipped: GEMINI_API_KEY is not set");
        return;
    };
    let request = hello(ModelConfig::google("gemini-2.5-flash", "Flash", key));
    let message = complete(&GoogleProvider::new(), &request, &CancellationToken::new()).await.unwrap();
    assert!(!message.text().is_empty() && message.usage.output > 0);
}

/// With code execution the vendor sends `STOP` and the tokens in a piece in the middle of a reply.
#[tokio::test]
async fn a_finish_reason_in_the_middle_does_not_end_the_reply_however_long_the_vendor_pauses() {
    let pause = || Act::Pause(Duration::from_millis(400));
    let script = vec![
        sse(),
        said(json!([{"executableCode": {"language": "PYTHON", "code": "print(6*7)"}}])),
        last("STOP"),
        pause(),
        said(json!([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42"}}])),
        pause(),
        said(json!([{"text": "It is 42."}])),
        last("MAX_TOKENS"),
        Act::End,
    ];
    let server = Server::start(vec![script]).await;
    let message = call(&GoogleProvider::new(), &hello(model(&server))).await.message();
    assert_eq!(message.text(), "It is 42.");
    assert_eq!(message.content.len(), 3, "{:?}", message.content);
    assert_eq!(message.stop_reason, agent_core::StopReason::Length, "the last reason counts");
}

/// The end of the body is the vendor's only end mark, so a body that does not end may be part of a reply.
#[tokio::test]
async fn a_body_that_does_not_end_is_an_error_although_a_finish_reason_came() {
    let config = TransportConfig::default().with_idle_timeout(Duration::from_millis(200));
    let provider = GoogleProvider::with_transport(Transport::new(config));
    for (end, says) in [(Act::Stall, "nothing came for 0.2 s"), (Act::Cut, "")] {
        let script = vec![sse(), said(json!([{"text": "half"}])), last("STOP"), end];
        let server = Server::start(vec![script]).await;
        let outcome = call(&provider, &hello(model(&server))).await;
        assert_eq!(outcome.error().kind(), ErrorKind::Network);
        assert!(outcome.error().to_string().contains(says), "{}", outcome.error());
        assert_eq!(outcome.text(), "half");
        assert_eq!(outcome.log.usage().output, 25, "the tokens that were counted are kept");
    }
    let script = vec![sse(), said(json!([{"text": "half"}])), last("SAFETY"), Act::Cut];
    let server = Server::start(vec![script]).await;
    let outcome = call(&provider, &hello(model(&server))).await;
    assert_eq!(outcome.error().kind(), ErrorKind::Api, "a refusal is not tried again");
}
