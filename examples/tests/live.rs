//! The live checks, against a server on loopback that behaves as a provider should, or has one fault.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

#[path = "../live/checks.rs"]
mod checks;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use looptree::ModelConfig;
use looptree::providers::catalogue;
use serde_json::{Value, json};
use tokio::net::TcpListener;

const KEY: &str = "the-right-key";

/// What the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The text arrives in one part.
    Whole,
    /// The text ends early.
    Short,
    /// No tokens are counted.
    Uncounted,
    /// The tool is not called.
    NoCall,
    /// The result of the tool is not used.
    Deaf,
    /// Every key is right.
    Open,
    /// A wrong key is an error of the server.
    Confused,
}

/// Starts a server that speaks Chat Completions, and returns a model of it.
async fn model(fault: Fault) -> ModelConfig {
    let routes = Router::new().route("/v1/chat/completions", post(answer)).with_state(fault);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    // The runtime of the test ends it.
    tokio::spawn(async move { axum::serve(listener, routes).await });
    catalogue::named("local/scripted").unwrap().with_base_url(url).with_api_key(KEY)
}

async fn answer(State(fault): State<Fault>, headers: HeaderMap, body: String) -> Response {
    let is_right = headers.get("authorization").is_some_and(|value| value == &format!("Bearer {KEY}"));
    if !is_right && fault == Fault::Confused {
        let error = json!({"error": {"message": "bad request", "type": "invalid_request_error"}});
        return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
    }
    if !is_right && fault != Fault::Open {
        let error =
            json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}});
        return (StatusCode::UNAUTHORIZED, error.to_string()).into_response();
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let (deltas, finish) = if last["role"] == "tool" {
        let word = if fault == Fault::Deaf { "I do not know." } else { last["content"].as_str().unwrap() };
        (vec![json!({"content": "The word is "}), json!({"content": word})], "stop")
    } else if body["tools"].is_array() && fault != Fault::NoCall {
        let function = json!({"name": "open_drawer", "arguments": "{\"drawer\": \"left\"}"});
        (
            vec![
                json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}),
            ],
            "tool_calls",
        )
    } else {
        let count = if fault == Fault::Short { 39 } else { 40 };
        let numbers: Vec<String> = (1..=count).map(|number| format!("{number} ")).collect();
        let parts = if fault == Fault::Whole { vec![numbers.concat()] } else { numbers };
        (parts.into_iter().map(|part| json!({ "content": part })).collect(), "stop")
    };
    let chunk = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let mut text: String = deltas.into_iter().map(|delta| chunk(delta, Value::Null)).collect();
    text += &chunk(json!({}), json!(finish));
    if fault != Fault::Uncounted {
        let usage = json!({"prompt_tokens": 30, "completion_tokens": 9, "total_tokens": 39});
        text += &format!("data: {}\n\n", json!({"choices": [], "usage": usage}));
    }
    text += "data: [DONE]\n\n";
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

/// The checks that fail, with their errors.
async fn failures(fault: Fault) -> Vec<(&'static str, String)> {
    let model = model(fault).await;
    let wrong = Ok(model.clone().with_api_key("another-key"));
    let all = checks::all(model, wrong).await;
    assert_eq!(all.len(), 3);
    all.into_iter().filter_map(|(name, checked)| Some((name, checked.err()?.to_string()))).collect()
}

#[tokio::test]
async fn a_provider_that_does_everything_passes() {
    let failed = failures(Fault::None).await;
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn each_fault_of_a_provider_fails_a_check() {
    let faults = [
        (Fault::Whole, "text streams", "arrived in 1 part"),
        (Fault::Short, "text streams", "40 is missing"),
        (Fault::Uncounted, "text streams", "no tokens were counted"),
        (Fault::NoCall, "a tool is called", "did not call the tool"),
        (Fault::Deaf, "a tool is called", "does not use the result"),
        (Fault::Open, "a wrong key is refused", "not with an authentication error"),
        (Fault::Confused, "a wrong key is refused", "not with an authentication error"),
    ];
    for (fault, check, error) in faults {
        let failed = failures(fault).await;
        let found = failed.iter().find(|(name, _)| *name == check);
        assert!(found.is_some_and(|(_, text)| text.contains(error)), "{fault:?}: {failed:?}");
    }
}

#[tokio::test]
async fn a_provider_without_keys_is_checked_without_a_wrong_one() {
    let all = checks::all(model(Fault::None).await, Err("it has no keys".to_owned())).await;
    let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["text streams", "a tool is called"]);
}
