//! Recorded answers of real servers, decoded over real HTTP and compared with what the vendors' own libraries read
//! from the same bytes.
//!
//! The recordings are not part of this repository. They are looked for in the directory that `LOOPTREE_FIXTURES`
//! names at compile time, else beside the repository; without them the test says so and passes.

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

use std::path::{Path, PathBuf};

use agent_core::{ErrorKind, ModelConfig, OwnedStreamEvent, StreamProvider};
use agent_providers::{OllamaProvider, OpenAiChatProvider};
use serde_json::Value;
use support::{Act, Outcome, Server, call, hello};

/// Cases that are read differently on purpose.
const ON_PURPOSE: &[(&str, &str)] = &[(
    "json-opencode-go-minimax-chat",
    "an Anthropic message from a Chat Completions address: an error that says so, not an empty reply",
)];

/// Errors by case, where neither the status nor the words in a case's name say it.
const KINDS: &[(&str, ErrorKind)] = &[
    ("err400-mistral-blocking-error-carries-the-correlation-id", ErrorKind::ModelNotFound),
    ("err413-groq-tpm-not-overflow", ErrorKind::Api),
    ("err429-openai-insufficient-quota", ErrorKind::Quota),
    ("derived-midstream-error-openai", ErrorKind::Network),
    ("derived-midstream-error", ErrorKind::Network),
    ("groq-tool-use-failed-error-streaming-with-text", ErrorKind::Api),
    ("openrouter-stream-error", ErrorKind::Api),
    ("derived-truncated-tool-args", ErrorKind::Network),
];

fn fixtures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let dir = option_env!("LOOPTREE_FIXTURES").map_or(beside, PathBuf::from);
    dir.join("MANIFEST.json").is_file().then_some(dir)
}

struct Case {
    name: String,
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    expected: Value,
}

fn cases(dir: &Path, protocol: &str) -> Vec<Case> {
    let manifest: Value = serde_json::from_slice(&std::fs::read(dir.join("MANIFEST.json")).unwrap()).unwrap();
    let all = manifest["cases"].as_array().unwrap().iter().filter(|c| c["protocol"] == protocol);
    all.map(|case| {
        let name = case["case"].as_str().unwrap().to_owned();
        let folder = dir.join(protocol);
        let expected = std::fs::read(folder.join(format!("{name}.expected.json"))).unwrap();
        let headers = case["headers"].as_object().unwrap();
        Case {
            status: u16::try_from(case["status"].as_u64().unwrap()).unwrap(),
            headers: headers.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())).collect(),
            body: std::fs::read(folder.join(case["file"].as_str().unwrap())).unwrap(),
            expected: serde_json::from_slice(&expected).unwrap(),
            name,
        }
    })
    .collect()
}

/// The answer, byte for byte, in pieces of odd sizes.
fn script(case: &Case) -> Vec<Act> {
    let mut head = format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n", case.status);
    for (name, value) in &case.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut raw = head.into_bytes();
    for piece in case.body.chunks(977) {
        raw.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        raw.extend_from_slice(piece);
        raw.extend_from_slice(b"\r\n");
    }
    raw.extend_from_slice(b"0\r\n\r\n");
    vec![Act::Raw(raw)]
}

fn thinking(outcome: &Outcome) -> String {
    let content = outcome.log.snapshot().content();
    let blocks = content.iter().filter_map(|c| match c {
        agent_core::Content::Thinking(t) => Some(t.thinking.as_str()),
        _ => None,
    });
    blocks.collect()
}

fn kind_expected(case: &Case) -> ErrorKind {
    if let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == case.name) {
        return *kind;
    }
    match case.status {
        _ if case.name.contains("overflow") => ErrorKind::ContextOverflow,
        401 | 403 => ErrorKind::Auth,
        404 => ErrorKind::ModelNotFound,
        429 => ErrorKind::RateLimited,
        500.. => ErrorKind::Network,
        _ => ErrorKind::Api,
    }
}

/// Written tokens, reasoning included. A total that is larger than prompt and completion has the rest of them: reasoning
/// that is counted beside the completion, or hidden.
fn output_expected(want: &Value) -> u64 {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (input, output) = (number(&want["usage"]["input"]), number(&want["usage"]["output"]));
    output.max(number(&want["usage_raw"]["total_tokens"]).saturating_sub(input))
}

/// What differs, in words; empty when nothing does.
fn differences(case: &Case, outcome: &Outcome) -> Vec<String> {
    let want = &case.expected;
    let mut out = Vec::new();
    let mut check = |what: &str, got: String, want: String| {
        if got != want {
            out.push(format!("{what}: got {got:?}, expected {want:?}"));
        }
    };
    check("text", outcome.text(), want["text"].as_str().unwrap_or_default().into());
    check("thinking", thinking(outcome), want["thinking"].as_str().unwrap_or_default().into());
    let content = outcome.log.snapshot().content();
    let calls: Vec<_> = content.iter().filter_map(agent_core::Content::as_tool_call).collect();
    let partial = want.get("partial_tool_calls").filter(|v| v.is_array());
    let wanted = partial.unwrap_or(&want["tool_calls"]).as_array().cloned().unwrap_or_default();
    check("number of calls", calls.len().to_string(), wanted.len().to_string());
    for (call, want) in calls.iter().zip(&wanted) {
        check("name", call.name.to_string(), want["name"].as_str().unwrap_or_default().into());
        if let Some(id) = want["id"].as_str().filter(|id| !id.is_empty()) {
            check("id", call.id.to_string(), id.into());
        }
        if let Some(raw) = want["arguments_raw"].as_str() {
            check("arguments", call.arguments.text().into(), raw.into());
        } else if !want["arguments"].is_null() {
            check(
                "arguments",
                call.arguments.value().cloned().unwrap_or_default().to_string(),
                want["arguments"].to_string(),
            );
        }
    }
    let usage = outcome.log.usage();
    let number = |key: &str| want["usage"][key].as_u64();
    if let Some(input) = number("input") {
        check("prompt tokens", usage.prompt_tokens().to_string(), input.to_string());
        check("cache read", usage.cache_read.to_string(), number("cache_read").unwrap_or(0).to_string());
        check("cache write", usage.cache_write.to_string(), number("cache_write").unwrap_or(0).to_string());
        check("output", usage.output.to_string(), output_expected(want).to_string());
        check("reasoning", usage.reasoning.to_string(), number("reasoning").unwrap_or(0).to_string());
        check("total", usage.total_tokens.to_string(), (usage.prompt_tokens() + usage.output).to_string());
    }
    let start = outcome.events.iter().find_map(|e| match e {
        OwnedStreamEvent::Start { response_id, model } => Some((response_id.clone(), model.clone())),
        _ => None,
    });
    let (id, model) = start.unwrap_or_default();
    check("response id", id.unwrap_or_default(), want["response_id"].as_str().unwrap_or_default().into());
    check("model", model.unwrap_or_default(), want["model"].as_str().unwrap_or_default().into());

    let refusal = want["refusal"].as_str().filter(|r| !r.is_empty());
    let filtered = want["stop_reason"] == "content_filter";
    let complete = want["complete"] == true && refusal.is_none() && !filtered;
    match &outcome.end {
        Ok(completion) => {
            check("outcome", "complete".into(), if complete { "complete" } else { "error" }.into());
            let reason = completion.vendor_reason.clone().unwrap_or_default();
            check("stop reason", reason, want["stop_reason"].as_str().unwrap_or_default().into());
        }
        Err(error) if complete => check("outcome", format!("error: {error}"), "complete".into()),
        Err(error) => {
            let context = error.context().unwrap();
            match (refusal, filtered) {
                (Some(refusal), _) => check("refusal", context.message.clone(), refusal.into()),
                (None, true) => check("error kind", format!("{:?}", error.kind()), "Api".into()),
                (None, false) => {
                    check("error kind", format!("{:?}", error.kind()), format!("{:?}", kind_expected(case)));
                }
            }
            if case.status >= 400 {
                check("status", format!("{:?}", error.status()), format!("{:?}", Some(case.status)));
            }
        }
    }
    out
}

async fn run(
    protocol: &str,
    expected_cases: usize,
    provider: &dyn StreamProvider,
    model: fn(String) -> ModelConfig,
) {
    let Some(dir) = fixtures() else {
        println!("skipped: the recorded answers are not here");
        return;
    };
    let cases = cases(&dir, protocol);
    assert!(cases.len() >= expected_cases, "only {} cases", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        if let Some((_, why)) = ON_PURPOSE.iter().find(|(name, _)| *name == case.name) {
            println!("{}: {why}", case.name);
            continue;
        }
        let server = Server::start(vec![script(case)]).await;
        let outcome = call(provider, &hello(model(server.url()))).await;
        let differences = differences(case, &outcome);
        if !differences.is_empty() {
            failed.push(format!("{}\n    {}", case.name, differences.join("\n    ")));
        }
    }
    assert!(failed.is_empty(), "{} of {} cases differ:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// REQ-041, REQ-131, REQ-167.
#[tokio::test]
async fn chat_completions_of_all_recorded_servers_are_read_as_their_own_libraries_read_them() {
    run("openai-chat", 114, &OpenAiChatProvider::new(), |url| ModelConfig::local(url, "m", "sk-test")).await;
}

/// D34, REQ-167.
#[tokio::test]
async fn ollama_answers_are_read_as_its_own_library_reads_them() {
    run("ollama", 17, &OllamaProvider::new(), |url| ModelConfig::ollama("m").with_base_url(url)).await;
}
