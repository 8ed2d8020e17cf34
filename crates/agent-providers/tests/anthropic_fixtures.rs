//! Recorded answers of the real API, whole and cut into pieces, against what the vendor's own SDK makes of them. The
//! recordings lie outside this repository; without them the test says so and passes.

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

use std::path::{Path, PathBuf};

use agent_core::{
    CancellationToken, Completion, Content, ErrorKind, History, Message, ModelConfig, ModelRequest,
    ProviderError, ReplyLog, StreamProvider,
};
use agent_providers::AnthropicProvider;
use anthropic_server::{Answer, Server};
use serde_json::Value;

fn fixtures() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    root.join("MANIFEST.json").is_file().then_some(root)
}

fn request(url: &str, model: &str) -> ModelRequest {
    let (history, _) = History::repaired([agent_core::AgentMessage::from(Message::user("?"))]);
    ModelRequest::new(ModelConfig::anthropic(model, "Claude", "key").with_base_url(url), history)
}

/// What came of one call.
struct Outcome {
    log: ReplyLog,
    end: Result<Completion, ProviderError>,
}

async fn call(answer: Answer, model: &str) -> Outcome {
    let server = Server::start(answer).await;
    let mut log = ReplyLog::new();
    let request = request(&server.url, model);
    let provider = AnthropicProvider::new();
    let end = provider.stream(&request, &mut |event| log.push(&event), &CancellationToken::new()).await;
    Outcome { log, end }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_answer_is_read_as_the_vendors_sdk_reads_it_whole_and_cut() {
    let Some(root) = fixtures() else {
        println!("skipped: there are no recordings beside this repository");
        return;
    };
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(root.join("MANIFEST.json")).unwrap()).unwrap();
    let folder = root.join("anthropic");
    let (mut seen, mut wrong) = (0, Vec::new());
    for case in manifest["cases"].as_array().unwrap().iter().filter(|c| c["protocol"] == "anthropic") {
        let name = case["case"].as_str().unwrap();
        let body = std::fs::read(folder.join(case["file"].as_str().unwrap())).unwrap();
        let expected: Value =
            serde_json::from_slice(&std::fs::read(folder.join(format!("{name}.expected.json"))).unwrap())
                .unwrap();
        let mut answer = Answer::new(u16::try_from(case["status"].as_u64().unwrap()).unwrap(), "", &body);
        let headers = case["headers"].as_object().unwrap();
        answer.headers = headers.iter().map(|(n, v)| (n.clone(), v.as_str().unwrap().to_owned())).collect();
        let model = case["model"].as_str().unwrap_or("claude");
        for size in [usize::MAX, 1_460, 61, 7, 1] {
            if size < 61 && body.len() > 40_000 {
                continue;
            }
            let outcome = call(answer.clone().cut(size.min(body.len().max(1))), model).await;
            let what = format!("{name} in pieces of {size}");
            let checked = std::panic::AssertUnwindSafe(|| check(&what, &expected, &outcome));
            if std::panic::catch_unwind(checked).is_err() {
                wrong.push(what);
            }
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen >= 54, "{seen} recordings");
}

#[track_caller]
fn check(what: &str, expected: &Value, outcome: &Outcome) {
    if !expected["error"].is_null() {
        return check_error(what, &expected["error"], expected, outcome);
    }
    let refused = expected["stop_reason"] == "refusal";
    // In two recordings the last event lacks its blank line; it counts here and not in the vendor's SDK.
    let unfinished = expected["complete"] == false && expected["stop_reason"].is_null();
    match &outcome.end {
        Err(error) if refused => {
            assert_eq!(error.kind(), ErrorKind::Api, "{what}");
            assert!(error.to_string().contains("Usage Policy"), "{what}: {error}");
        }
        Err(error) if unfinished => assert_eq!(error.kind(), ErrorKind::Network, "{what}: {error}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(completion) => {
            assert!(!refused && !unfinished, "{what}");
            assert_eq!(completion.vendor_reason.as_deref(), expected["stop_reason"].as_str(), "{what}");
            let sequence = expected.get("stop_sequence").and_then(Value::as_str);
            assert_eq!(completion.stop_sequence.as_deref(), sequence, "{what}");
        }
    }
    let content = if unfinished { outcome.log.partial_content() } else { outcome.log.content() };
    let text: String = content.iter().filter_map(Content::as_text).collect();
    let thinking: String = thoughts(&content).map(|t| t.thinking.as_str()).collect();
    let expected_text = expected["text"].as_str().unwrap();
    assert_eq!(text, expected_text, "{what}");
    assert_eq!(thinking, expected["thinking"].as_str().unwrap(), "{what}");
    let signatures: Vec<&str> =
        thoughts(&content).filter(|t| !t.redacted).filter_map(|t| t.signature.as_deref()).collect();
    if let Some(list) = expected.get("thinking_signatures").and_then(Value::as_array) {
        assert_eq!(signatures, list.iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>(), "{what}");
    }
    let redacted: Vec<&str> =
        thoughts(&content).filter(|t| t.redacted).filter_map(|t| t.signature.as_deref()).collect();
    let list = expected.get("redacted_thinking").and_then(Value::as_array).cloned().unwrap_or_default();
    assert_eq!(redacted, list.iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>(), "{what}");
    let open = outcome.log.open_calls();
    let ended: Vec<Content> = content
        .iter()
        .filter(|c| c.as_tool_call().is_none_or(|call| !open.contains(call)))
        .cloned()
        .collect();
    check_calls(what, &ended, expected["tool_calls"].as_array().unwrap());
    let server: Vec<&str> = content
        .iter()
        .filter_map(|c| if let Content::Opaque(o) = c { Some(o.kind.as_str()) } else { None })
        // A member of the message, which the SDK does not list.
        .filter(|kind| *kind != "container")
        .collect();
    let list = expected.get("server_items").and_then(Value::as_array).cloned().unwrap_or_default();
    assert_eq!(server, list.iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>(), "{what}");
    // The counts of model calls outside of the reply are added (`cargo xtask conformance` checks the sum).
    let mut calls = expected["usage_raw"]["iterations"].as_array().into_iter().flatten();
    if calls.all(|call| call["type"] == "message") {
        check_usage(what, outcome, &expected["usage"]);
    }
    assert_eq!(outcome.log.response_id().as_deref(), expected["response_id"].as_str(), "{what}");
    if unfinished {
        check_open(what, outcome, expected);
    }
    assert_eq!(outcome.log.unrecognised(), 0, "{what}");
}

fn thoughts(content: &[Content]) -> impl Iterator<Item = &agent_core::ThinkingContent> {
    content.iter().filter_map(|c| if let Content::Thinking(t) = c { Some(t) } else { None })
}

#[track_caller]
fn check_calls(what: &str, content: &[Content], expected: &[Value]) {
    let calls: Vec<_> = content.iter().filter_map(Content::as_tool_call).collect();
    assert_eq!(calls.len(), expected.len(), "{what}");
    for (call, expected) in calls.iter().zip(expected) {
        assert_eq!(call.id, *expected["id"].as_str().unwrap(), "{what}");
        assert_eq!(call.name, *expected["name"].as_str().unwrap(), "{what}");
        if let Some(raw) = expected["arguments_raw"].as_str() {
            assert_eq!(call.arguments.text(), raw, "{what}");
        }
        if !expected["arguments"].is_null() {
            assert_eq!(call.arguments.value().unwrap(), &expected["arguments"], "{what}");
        }
    }
}

#[track_caller]
fn check_usage(what: &str, outcome: &Outcome, expected: &Value) {
    let usage = outcome.log.usage();
    let said = |key: &str| expected[key].as_u64().unwrap_or(0);
    assert_eq!(
        [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning],
        [said("input"), said("output"), said("cache_read"), said("cache_write"), said("reasoning")],
        "{what}"
    );
    assert_eq!(
        usage.total_tokens,
        said("input") + said("output") + said("cache_read") + said("cache_write"),
        "{what}"
    );
}

#[track_caller]
fn check_open(what: &str, outcome: &Outcome, expected: &Value) {
    let open = outcome.log.open_calls();
    let expected = expected.get("partial_tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
    assert_eq!(open.len(), expected.len(), "{what}");
    for (call, expected) in open.iter().zip(&expected) {
        assert_eq!(call.id, *expected["id"].as_str().unwrap(), "{what}");
        assert_eq!(call.name, *expected["name"].as_str().unwrap(), "{what}");
        assert_eq!(call.arguments.text(), expected["arguments_raw"].as_str().unwrap_or_default(), "{what}");
    }
}

#[track_caller]
fn check_error(what: &str, expected: &Value, whole: &Value, outcome: &Outcome) {
    let error = outcome.end.as_ref().expect_err(what);
    let context = error.context().unwrap();
    let said = expected["type"].as_str().unwrap();
    let message = expected["body"]["error"]["message"].as_str().unwrap();
    let kind = match said {
        "invalid_request_error" if message.contains("too long") => ErrorKind::ContextOverflow,
        "invalid_request_error" => ErrorKind::Api,
        "authentication_error" | "permission_error" => ErrorKind::Auth,
        "not_found_error" => ErrorKind::ModelNotFound,
        "request_too_large" => ErrorKind::ContextOverflow,
        "rate_limit_error" => ErrorKind::RateLimited,
        "api_error" | "overloaded_error" => ErrorKind::Network,
        other => panic!("{what}: {other}"),
    };
    assert_eq!(error.kind(), kind, "{what}: {error}");
    assert_eq!(context.code.as_deref(), Some(said), "{what}");
    assert_eq!(context.message, message, "{what}");
    let status = expected["status"].as_u64().unwrap();
    assert_eq!(context.status.map(u64::from), (status != 200).then_some(status), "{what}");
    let id =
        expected.get("request_id").or_else(|| expected["body"].get("request_id")).and_then(Value::as_str);
    assert_eq!(error.request_id(), id, "{what}");
    let wait = expected["headers"]["retry-after"].as_str().map(|s| s.parse().unwrap());
    assert_eq!(error.retry_after().map(|d| d.as_secs()), wait, "{what}");
    assert_eq!(
        outcome.log.partial_content().iter().filter_map(Content::as_text).collect::<String>(),
        whole["text"].as_str().unwrap(),
        "{what}"
    );
    check_open(what, outcome, whole);
}
