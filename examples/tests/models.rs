//! A model string reaches each protocol from an example.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the programs are examples of this package")]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri};

const KEY: &str = "the-key-of-this-test";

/// The protocols: the model, further members of its description, the variable with the key, the header with it, and the path.
const PROTOCOLS: &[(&str, &str, &str, &str, &str)] = &[
    ("anthropic/claude-sonnet-5-5", "", "ANTHROPIC_API_KEY", "x-api-key", "/v1/messages"),
    ("openai/gpt-4.1", "", "OPENAI_API_KEY", "authorization", "/chat/completions"),
    ("openrouter/meta-llama/llama-4", "", "OPENROUTER_API_KEY", "authorization", "/chat/completions"),
    ("openai_responses/gpt-6.2-sol", "", "OPENAI_API_KEY", "authorization", "/responses"),
    ("azure/my-deployment", "", "AZURE_OPENAI_API_KEY", "api-key", "/openai/v1/responses"),
    (
        "google/gemini-3.1-pro-preview",
        "",
        "GEMINI_API_KEY",
        "x-goog-api-key",
        "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent",
    ),
    (
        "google_vertex/gemini-2.5-pro",
        r#","project":"p","region":"europe-west4","api_key_env":"VERTEX_TOKEN""#,
        "VERTEX_TOKEN",
        "authorization",
        "/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-2.5-pro:streamGenerateContent",
    ),
    (
        "google_vertex/claude-sonnet-4-5@20250929",
        r#","api":"anthropic_vertex","project":"p","region":"global","api_key_env":"VERTEX_TOKEN""#,
        "VERTEX_TOKEN",
        "authorization",
        "/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
    ),
    (
        "bedrock/anthropic.claude-opus-5-5",
        r#","region":"eu-central-1""#,
        "AWS_BEARER_TOKEN_BEDROCK",
        "authorization",
        "/model/anthropic.claude-opus-5-5/converse-stream",
    ),
    ("ollama/qwen3", "", "UNUSED", "", "/api/chat"),
];

type Requests = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// A server that refuses everything and notes what it is asked.
async fn server() -> (String, Requests) {
    let seen = Requests::default();
    let noted = Arc::clone(&seen);
    let refuse = move |uri: Uri, headers: HeaderMap| {
        noted.lock().unwrap().push((uri.path().to_owned(), headers));
        async { (StatusCode::BAD_REQUEST, "this server has no models") }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(refuse)).await });
    (url, seen)
}

fn hello() -> Command {
    let deps = std::env::current_exe().unwrap();
    let folder = deps.parent().and_then(Path::parent).unwrap();
    let mut command = Command::new(folder.join("examples/hello"));
    command.env_clear();
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_of_each_protocol_is_called_with_its_key() {
    let (url, seen) = server().await;
    for (model, more, variable, header, path) in PROTOCOLS {
        let description = format!(r#"{{"model":"{model}","base_url":"{url}"{more}}}"#);
        for by_argument in [true, false] {
            let mut command = hello();
            command.env(variable, KEY);
            if by_argument {
                command.args(["--model", &description]);
            } else {
                command.env("MODEL", &description);
            }
            let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && !errors.contains("a script answers"), "{model}: {errors}");
            assert!(!errors.contains(KEY), "{model}: the key is in the error");
            let requests = std::mem::take(&mut *seen.lock().unwrap());
            let [(asked, headers)] = &requests[..] else { panic!("{model}: {requests:?}\n{errors}") };
            assert_eq!(asked, path, "{model}");
            if !header.is_empty() {
                let value = headers[*header].to_str().unwrap();
                assert!(value.ends_with(KEY), "{model}");
            }
        }
    }
}

#[test]
fn a_wrong_model_is_an_error_that_says_what_is_expected() {
    for (arguments, expected) in [
        (&["--model", "gpt"][..], "write provider/model"),
        (&["--model", "nowhere/gpt"], "there is no provider \"nowhere\""),
        (&["--model"], "--model needs a name"),
        (&["--model", "{\"model\":\"openai/gpt\",\"api_key\":\"x\"}"], "no valid description"),
        (&["--model", "anthropic/claude-sonnet-5-5"], "ANTHROPIC_API_KEY"),
    ] {
        let output = hello().args(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{arguments:?}: {errors}");
    }
}
