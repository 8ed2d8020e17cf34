//! The transport over real loopback HTTP: live delivery, abort, silence, broken and wrong answers, retries that do
//! not happen, and secrets that stay secret.

#![cfg(all(feature = "openai-chat", feature = "ollama"))]
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

use agent_core::{CancellationToken, ErrorKind, ModelConfig, ProviderError, StreamEvent, StreamProvider};
use agent_providers::{OpenAiChatProvider, Transport, TransportConfig};
use support::{Act, Outcome, Server, call, call_until, head, hello, piece, sse};
use tokio::sync::Notify;

const KEY: &str = "sk-live-0123456789";

fn model(server: &Server) -> ModelConfig {
    ModelConfig::local(server.url(), "m", KEY)
}

fn delta(text: &str) -> Act {
    piece(&format!(
        "data: {}\n\n",
        serde_json::json!({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]})
    ))
}

fn stop() -> Act {
    piece("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

async fn outcome(script: Vec<Act>) -> (Outcome, Server) {
    let server = Server::start(vec![script]).await;
    let outcome = call(&OpenAiChatProvider::new(), &hello(model(&server))).await;
    (outcome, server)
}

#[track_caller]
fn assert_error(error: &ProviderError, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in {text:?}");
    }
    assert!(text.contains("local (m)"), "{text}");
    assert!(!format!("{text} {error:?}").contains(KEY), "the key is shown in {text}");
}

/// REQ-041, REQ-020.
#[tokio::test]
async fn every_delta_arrives_before_the_next_one_is_sent() {
    let gates: Vec<Arc<Notify>> = (0..4).map(|_| Arc::default()).collect();
    let mut script = vec![sse()];
    for (n, gate) in gates.iter().enumerate() {
        script.push(delta(&n.to_string()));
        script.push(Act::Wait(Arc::clone(gate)));
    }
    script.push(stop());
    script.push(Act::End);
    let server = Server::start(vec![script]).await;
    let seen = Arc::new(Mutex::new(String::new()));
    let inside = Arc::clone(&seen);
    // The server sends a delta only after the sink has had the one before it.
    let mut sink = move |event: StreamEvent<'_>| {
        if let StreamEvent::TextDelta { delta, .. } = event {
            inside.lock().unwrap().push_str(delta);
            gates[delta.parse::<usize>().unwrap()].notify_one();
        }
    };
    let request = hello(model(&server));
    let provider = OpenAiChatProvider::new();
    let cancel = CancellationToken::new();
    let end =
        tokio::time::timeout(Duration::from_secs(20), provider.stream(&request, &mut sink, &cancel)).await;
    end.expect("a delta was held back").unwrap();
    assert_eq!(*seen.lock().unwrap(), "0123");
}

/// REQ-043.
#[tokio::test]
async fn an_abort_before_the_answer_ends_the_call() {
    let server = Server::start(vec![vec![Act::Stall]]).await;
    let cancel = CancellationToken::new();
    let canceller = cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        canceller.cancel();
    });
    let outcome = call_until(&OpenAiChatProvider::new(), &hello(model(&server)), &cancel).await;
    assert!(matches!(outcome.error(), ProviderError::Cancelled));
}

#[tokio::test]
async fn a_call_that_is_cancelled_already_sends_nothing() {
    let server = Server::start(vec![vec![sse(), stop(), Act::End]]).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let outcome = call_until(&OpenAiChatProvider::new(), &hello(model(&server)), &cancel).await;
    assert!(matches!(outcome.error(), ProviderError::Cancelled));
    assert!(server.asked().is_empty());
}

/// REQ-043.
#[tokio::test]
async fn an_abort_in_the_middle_ends_the_call_and_what_had_arrived_is_kept() {
    let server = Server::start(vec![vec![sse(), delta("half"), Act::Stall]]).await;
    let cancel = CancellationToken::new();
    let canceller = cancel.clone();
    let mut text = String::new();
    let mut sink = |event: StreamEvent<'_>| {
        if let StreamEvent::TextDelta { delta, .. } = event {
            text.push_str(delta);
            canceller.cancel();
        }
    };
    let request = hello(model(&server));
    let provider = OpenAiChatProvider::new();
    let end =
        tokio::time::timeout(Duration::from_secs(20), provider.stream(&request, &mut sink, &cancel)).await;
    assert!(matches!(end.unwrap(), Err(ProviderError::Cancelled)));
    assert_eq!(text, "half");
}

/// REQ-072.
#[tokio::test]
async fn silence_longer_than_the_bound_is_a_network_error() {
    let config = TransportConfig::default()
        .with_idle_timeout(Duration::from_millis(80))
        .with_header_timeout(Duration::from_millis(80));
    let provider = OpenAiChatProvider::with_transport(Transport::new(config));
    for (script, said) in [
        (vec![sse(), delta("half"), Act::Stall], "nothing came for 0.08 s"),
        (vec![sse(), Act::Stall], "nothing came for 0.08 s"),
        (vec![Act::Stall], "sent no answer within 0.08 s"),
    ] {
        let server = Server::start(vec![script]).await;
        let outcome = call(&provider, &hello(model(&server))).await;
        assert_error(outcome.error(), ErrorKind::Network, &[said]);
    }
}

/// REQ-075.
#[tokio::test]
async fn an_error_answer_that_does_not_end_says_what_had_arrived() {
    let config = TransportConfig::default().with_idle_timeout(Duration::from_millis(80));
    let provider = OpenAiChatProvider::with_transport(Transport::new(config));
    for end in [Act::Stall, Act::Cut] {
        let server = Server::start(vec![vec![head(503, "text/plain"), piece("try later"), end]]).await;
        let outcome = call(&provider, &hello(model(&server))).await;
        assert_error(outcome.error(), ErrorKind::Network, &["answered 503: try later"]);
    }
}

/// REQ-072, B-120.
#[tokio::test]
async fn a_stream_that_breaks_off_is_a_network_error_and_what_had_arrived_is_kept() {
    for script in [
        vec![sse(), delta("half"), Act::Cut],
        vec![sse(), delta("half"), Act::End],
        vec![sse(), delta("half"), piece("data: {\"choices\":[{\"del"), Act::Cut],
        vec![sse(), delta("half"), piece("data: {\"choices\":[{\"del"), Act::End],
    ] {
        let (outcome, server) = outcome(script).await;
        assert_error(outcome.error(), ErrorKind::Network, &[]);
        assert!(outcome.error().is_retryable());
        assert_eq!(outcome.text(), "half");
        assert_eq!(server.asked().len(), 1, "the request was sent again");
    }
}

/// B-120.
#[tokio::test]
async fn a_stream_that_breaks_after_its_end_was_said_is_complete() {
    let finished =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n";
    let done = format!("{finished}data: [DONE]\n\n");
    // A server without `[DONE]` ends the body.
    for script in [vec![sse(), piece(&done), Act::Cut], vec![sse(), piece(finished), Act::End]] {
        let (outcome, _server) = outcome(script).await;
        assert_eq!(outcome.message().text(), "x");
    }
    // A reason to stop is no end: gateways send one with every piece.
    let (outcome, _server) = outcome(vec![sse(), piece(finished), Act::Cut]).await;
    assert_error(outcome.error(), ErrorKind::Network, &["broke"]);
}

/// Two calls, each in a chunk with a reason to stop, cut at every byte after the first.
#[tokio::test]
async fn a_connection_that_is_lost_between_two_calls_is_no_reply_with_one() {
    let chunk = |n: usize| {
        format!(
            "data: {}\n\n",
            serde_json::json!({"id": "g", "choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls":
                [{"index": n, "id": format!("t{n}"), "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}]})
        )
    };
    let (first, second) = (chunk(0), chunk(1));
    for at in (0..second.len()).step_by(20) {
        let body = format!("{first}{}", &second[..at]);
        let (outcome, _server) = outcome(vec![sse(), piece(&body), Act::Cut]).await;
        assert_error(outcome.error(), ErrorKind::Network, &[]);
        assert!(outcome.error().is_retryable());
        // A body that ends as it should, but within a piece.
        if at > "data: {".len() {
            let (outcome, _server) = self::outcome(vec![sse(), piece(&body), Act::End]).await;
            assert_error(outcome.error(), ErrorKind::Network, &["broke off"]);
        }
    }
    let (outcome, _server) = outcome(vec![sse(), piece(&format!("{first}{second}")), Act::End]).await;
    assert_eq!(outcome.message().tool_calls().count(), 2);
}

/// REQ-072.
#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = ModelConfig::local(format!("http://{address}/v1?secret=hunter2"), "m", KEY);
    let outcome = call(&OpenAiChatProvider::new(), &hello(model)).await;
    let origin = format!("http://{address}");
    assert_error(outcome.error(), ErrorKind::Network, &[&origin, "is the server running"]);
    assert!(!format!("{:?}", outcome.error()).contains("hunter2"));
}

/// REQ-073.
#[tokio::test]
async fn the_wait_that_a_server_asks_for_is_passed_on() {
    for (name, value, expect) in
        [("retry-after", "7", 7_000), ("retry-after", "0.25", 250), ("retry-after-ms", "1500", 1_500)]
    {
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            (name, value.to_owned()),
            ("x-request-id", "req_7".to_owned()),
        ];
        let body = piece(r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#);
        let (outcome, server) = outcome(vec![Act::Head(429, headers), body, Act::End]).await;
        let error = outcome.error();
        assert_error(error, ErrorKind::RateLimited, &["answered 429", "slow down"]);
        assert_eq!(error.retry_after(), Some(Duration::from_millis(expect)));
        assert_eq!(error.request_id(), Some("req_7"));
        assert_eq!(server.asked().len(), 1, "the request was sent again");
    }
}

#[tokio::test]
async fn a_server_may_say_whether_to_try_again() {
    for (status, said, kind) in [
        (500, "false", ErrorKind::Api),
        (400, "true", ErrorKind::Network),
        (500, "maybe", ErrorKind::Network),
    ] {
        let headers = vec![("content-type", "text/plain".to_owned()), ("x-should-retry", said.to_owned())];
        let (outcome, _server) = outcome(vec![Act::Head(status, headers), piece("odd"), Act::End]).await;
        assert_error(outcome.error(), kind, &["odd"]);
    }
}

/// REQ-075.
#[tokio::test]
async fn a_key_that_a_server_repeats_is_not_shown() {
    let body = piece(&format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#));
    let (outcome, _server) = outcome(vec![head(401, "application/json"), body, Act::End]).await;
    assert_error(
        outcome.error(),
        ErrorKind::Auth,
        &["Incorrect API key provided: ****", "check the API key"],
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_takes_no_key_along() {
    let other = Server::start(vec![vec![sse(), stop(), Act::End]]).await;
    let headers = vec![("location", format!("{}/chat/completions?token=hunter2", other.url()))];
    let (outcome, server) = outcome(vec![Act::Head(307, headers), Act::End]).await;
    assert_error(outcome.error(), ErrorKind::Api, &[&other.url(), "redirects are not followed"]);
    assert!(!format!("{:?}", outcome.error()).contains("hunter2"));
    assert!(other.asked().is_empty());
    assert_eq!(server.asked().len(), 1);
}

/// D35.
#[tokio::test]
async fn an_answer_of_the_wrong_kind_is_named() {
    let cases = [
        ("text/html", "<!doctype html><title>Hi</title>", "HTML page"),
        ("text/event-stream", "<html>", "HTML page"),
        ("image/png", "\u{1}PNG", "image/png"),
        ("application/json", "", "broke off"),
    ];
    for (content_type, body, said) in cases {
        let (outcome, _server) = outcome(vec![head(200, content_type), piece(body), Act::End]).await;
        let kind = if said == "broke off" { ErrorKind::Network } else { ErrorKind::Api };
        assert_error(outcome.error(), kind, &[said]);
    }
}

/// D35.
#[tokio::test]
async fn a_whole_json_body_is_read_as_a_stream_of_one() {
    let body = r#"{"id":"r","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    for content_type in ["application/json", "text/event-stream", "application/octet-stream"] {
        let (outcome, _server) =
            outcome(vec![head(200, content_type), piece(&format!("\n {body}")), Act::End]).await;
        let message = outcome.message();
        assert_eq!(
            (message.text().as_str(), message.usage.input, message.usage.output),
            ("hi", 3, 1),
            "{content_type}"
        );
    }
    for broken in [&body[..40], r#"{"error":{"message":"no","code":"model_not_found"}}"#] {
        let (outcome, _server) = outcome(vec![head(200, "application/json"), piece(broken), Act::End]).await;
        let kind =
            if broken.contains("model_not_found") { ErrorKind::ModelNotFound } else { ErrorKind::Network };
        assert_error(outcome.error(), kind, &[]);
    }
}

#[tokio::test]
async fn a_stream_under_the_wrong_content_type_is_read_all_the_same() {
    for content_type in ["application/json", "text/plain", "application/octet-stream"] {
        let (outcome, _server) =
            outcome(vec![head(200, content_type), piece(": hi\n\n"), delta("ok"), stop(), Act::End]).await;
        assert_eq!(outcome.message().text(), "ok", "{content_type}");
    }
}

#[tokio::test]
async fn a_piece_over_the_bound_is_an_error_and_does_not_fill_the_memory() {
    let provider = OpenAiChatProvider::with_transport(Transport::new(
        TransportConfig::default().with_max_frame_bytes(10_000),
    ));
    let long = "x".repeat(20_000);
    for (content_type, body) in [
        ("text/event-stream", format!("data: {long}\n\n")),
        ("text/event-stream", format!("data: {long}")),
        ("application/json", format!("{{\"a\":\"{long}\"}}")),
    ] {
        let server = Server::answering(content_type, body).await;
        let outcome = call(&provider, &hello(model(&server))).await;
        assert_error(outcome.error(), ErrorKind::Other, &["longer than 10000 bytes"]);
    }
}

/// REQ-041.
#[tokio::test]
async fn calls_share_a_connection() {
    let server = Server::start(vec![vec![sse(), delta("a"), stop(), Act::End]]).await;
    let provider = OpenAiChatProvider::with_transport(Transport::new(TransportConfig::default()));
    for _ in 0..3 {
        call(&provider, &hello(model(&server))).await.message();
        // The end of the body is read by the connection after the reply is complete.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let connections: Vec<usize> = server.asked().iter().map(|a| a.connection).collect();
    assert_eq!(connections, [0, 0, 0]);
}

#[tokio::test]
async fn a_connection_is_kept_when_the_end_of_the_body_comes_after_the_end_of_the_reply() {
    let gate = Arc::new(Notify::new());
    let script = vec![sse(), delta("a"), stop(), Act::Wait(Arc::clone(&gate)), Act::End];
    let server = Server::start(vec![script]).await;
    let provider = OpenAiChatProvider::with_transport(Transport::new(TransportConfig::default()));
    for _ in 0..2 {
        call(&provider, &hello(model(&server))).await.message();
        gate.notify_one();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let connections: Vec<usize> = server.asked().iter().map(|a| a.connection).collect();
    assert_eq!(connections, [0, 0]);
}

#[test]
fn a_runtime_that_has_ended_does_not_break_the_next_one() {
    let transport = Transport::new(TransportConfig::default());
    let provider = OpenAiChatProvider::with_transport(transport);
    let keeper = tokio::runtime::Runtime::new().unwrap();
    let server = keeper.block_on(Server::start(vec![vec![sse(), delta("a"), stop(), Act::End]]));
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(call(&provider, &hello(model(&server))));
        assert_eq!(outcome.message().text(), "a");
    }
}

/// B-155.
#[tokio::test]
async fn headers_of_the_caller_replace_and_remove_those_of_the_protocol() {
    let server = Server::start(vec![vec![sse(), stop(), Act::End]]).await;
    let model =
        model(&server).with_header("Authorization", "Bearer other-token").with_header("x-team", "blue");
    let mut request = hello(model.without_header("user-agent"));
    request.options.headers.insert("x-team".into(), Some("red".into()));
    call(&OpenAiChatProvider::new(), &request).await.message();
    let headers = server.asked()[0].headers.to_lowercase();
    assert!(
        headers.contains("authorization: bearer other-token") && headers.contains("x-team: red"),
        "{headers}"
    );
    assert!(!headers.contains("user-agent") && !headers.contains(KEY), "{headers}");
}

/// B-156.
#[tokio::test]
async fn a_hook_sees_the_body_and_may_replace_it() {
    let server = Server::start(vec![vec![sse(), stop(), Act::End]]).await;
    let mut request = hello(model(&server));
    request.options.request_hook = Some(Arc::new(|body| {
        let mut body = body.clone();
        body["keep_alive"] = "5m".into();
        Some(body)
    }));
    call(&OpenAiChatProvider::new(), &request).await.message();
    request.options.request_hook = Some(Arc::new(|_| None));
    call(&OpenAiChatProvider::new(), &request).await.message();
    let asked = server.asked();
    assert_eq!(asked[0].json()["keep_alive"], "5m");
    assert_eq!(asked[1].json().get("keep_alive"), None);
    assert_eq!(asked[0].json()["messages"], asked[1].json()["messages"]);
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-native")))]
#[tokio::test]
async fn https_without_tls_names_the_feature() {
    let model = ModelConfig::local("https://127.0.0.1:9/v1", "m", KEY);
    let outcome = call(&OpenAiChatProvider::new(), &hello(model)).await;
    assert_error(outcome.error(), ErrorKind::Other, &["tls-rustls"]);
}

/// D18. A server that counts tokens in every chunk sends the last count behind the reason, after any pause.
#[tokio::test]
async fn what_follows_the_finish_reason_is_read_however_long_the_server_pauses() {
    let chunk = |choices: &str, output: u32| {
        let usage = format!("{{\"prompt_tokens\":1,\"completion_tokens\":{output}}}");
        piece(&format!("data: {{\"choices\":[{choices}],\"usage\":{usage}}}\n\n"))
    };
    let pause = || Act::Pause(Duration::from_millis(400));
    let script = vec![
        sse(),
        chunk("{\"delta\":{\"content\":\"all \"}}", 1),
        chunk("{\"delta\":{},\"finish_reason\":\"stop\"}", 2),
        pause(),
        chunk("{\"delta\":{\"content\":\"of it\"}}", 3),
        pause(),
        chunk("", 7),
        Act::End,
    ];
    let (outcome, _server) = outcome(script).await;
    assert_eq!(outcome.message().text(), "all of it");
    assert_eq!(outcome.message().usage.output, 7);
}

/// D18. A server that sends no `[DONE]` and leaves the body open holds the reply until it counts as silent.
#[tokio::test]
async fn a_reply_with_a_finish_reason_is_complete_when_the_server_falls_silent() {
    let config = TransportConfig::default().with_idle_timeout(Duration::from_millis(200));
    let provider = OpenAiChatProvider::with_transport(Transport::new(config));
    let last = r#"data: {"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    let script = vec![sse(), delta("ok"), piece(&format!("{last}\n\n")), Act::Stall];
    let server = Server::start(vec![script]).await;
    assert_eq!(call(&provider, &hello(model(&server))).await.message().text(), "ok");
}

/// A server that says that the reply is complete and then nothing: the caller does not wait for the connection.
#[cfg(feature = "anthropic")]
#[tokio::test]
async fn a_complete_reply_does_not_wait_for_a_server_that_leaves_the_body_open() {
    let body = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n\
                data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
                data: {\"type\":\"message_stop\"}\n\n";
    let server =
        support::Server::start(vec![vec![support::sse(), support::piece(body), support::Act::Stall]]).await;
    let model = agent_core::ModelConfig::anthropic("claude", "Claude", "key").with_base_url(server.url());
    let provider = agent_providers::AnthropicProvider::new();
    let request = support::hello(model);
    let asked = support::call(&provider, &request);
    let outcome = tokio::time::timeout(std::time::Duration::from_secs(20), asked).await.unwrap();
    assert_eq!(outcome.end.unwrap().stop_reason, agent_core::StopReason::Stop);
}
