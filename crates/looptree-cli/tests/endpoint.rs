//! The endpoint check against servers with quirks, over loopback.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails loudly, also in the functions it shares with others"
)]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use looptree::model::ChatDialect;
use looptree::model::ReasoningField;
use looptree::model::ThinkingFormat;
use looptree_cli::endpoint::{Report, Target, check};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What a server wants to be different.
#[derive(Clone, Default)]
struct Quirks {
    /// Members that it refuses.
    refuses: &'static [&'static str],
    /// Members that it ignores.
    ignores: &'static [&'static str],
    no_developer: bool,
    no_pictures: bool,
    wants_names: bool,
    wants_bridge: bool,
    longest_id: Option<usize>,
    no_done: bool,
    no_tools: bool,
    thinks_in: Option<&'static str>,
    whole: bool,
}

async fn start(quirks: Quirks) -> String {
    let routes = Router::new()
        .route(
            "/v1/models",
            get(|| async { json!({"data": [{"id": "small"}, {"id": "large"}]}).to_string() }),
        )
        .route("/v1/chat/completions", post(answer))
        .with_state(Arc::new(quirks));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(routes.clone());
            tokio::spawn(async move {
                let builder = Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    url
}

fn refuse(text: &str) -> Response {
    (StatusCode::BAD_REQUEST, json!({"error": {"message": text}}).to_string()).into_response()
}

async fn answer(State(quirks): State<Arc<Quirks>>, request: Request) -> Response {
    let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    if let Some(text) = fault(&quirks, &body) {
        return refuse(&text);
    }
    let has = |field: &str| body.get(field).is_some() && !quirks.ignores.contains(&field);
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let wants_call = body.get("tools").is_some() && last["role"] == "user" && !quirks.no_tools;
    let mut pieces: Vec<Value> = Vec::new();
    let mut finish = "stop";
    if let Some(field) = quirks.thinks_in {
        pieces.push(json!({"choices": [{"delta": {field: "hm"}}]}));
    }
    if wants_call {
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":"}});
        pieces.push(json!({"choices": [{"delta": {"tool_calls": [call]}}]}));
        let more = json!({"index": 0, "function": {"arguments": "\"Rome\"}"}});
        pieces.push(json!({"choices": [{"delta": {"tool_calls": [more]}}]}));
        finish = "tool_calls";
    } else if has("response_format") {
        pieces.push(json!({"choices": [{"delta": {"content": "{\"ok\":true}"}}]}));
    } else if has("stop") {
        pieces.push(json!({"choices": [{"delta": {"content": "one two "}}]}));
    } else {
        pieces.push(json!({"choices": [{"delta": {"content": "one two "}}]}));
        pieces.push(json!({"choices": [{"delta": {"content": "three four"}}]}));
    }
    if has("max_tokens") && body["max_tokens"] == 5
        || has("max_completion_tokens") && body["max_completion_tokens"] == 5
    {
        finish = "length";
    }
    pieces.push(json!({"choices": [{"delta": {}, "finish_reason": finish}]}));
    if has("stream_options") {
        pieces.push(json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}));
    }
    if quirks.whole {
        return json!({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]})
            .to_string()
            .into_response();
    }
    let mut text: String = pieces.iter().map(|p| format!("data: {p}\n\n")).collect();
    if !quirks.no_done {
        text.push_str("data: [DONE]\n\n");
    }
    ([("content-type", "text/event-stream")], text).into_response()
}

/// Why the server does not take a request.
fn fault(quirks: &Quirks, body: &Value) -> Option<String> {
    if let Some(field) = quirks.refuses.iter().find(|f| body.get(**f).is_some()) {
        return Some(format!("unknown field {field}"));
    }
    let messages = body["messages"].as_array().unwrap();
    if quirks.no_developer && messages.iter().any(|m| m["role"] == "developer") {
        return Some("unknown role developer".into());
    }
    if quirks.no_pictures && messages.iter().any(|m| m["content"].is_array()) {
        return Some("content must be a string".into());
    }
    let strict = body.pointer("/tools/0/function/strict").is_some();
    if strict && quirks.refuses.contains(&"strict") {
        return Some("unknown field strict".into());
    }
    for pair in messages.windows(2) {
        if quirks.wants_bridge && pair[0]["role"] == "tool" && pair[1]["role"] == "user" {
            return Some("a user message cannot follow a tool message".into());
        }
    }
    for message in messages.iter().filter(|m| m["role"] == "tool") {
        if quirks.wants_names && message.get("name").is_none() {
            return Some("a tool message needs a name".into());
        }
        let id = message["tool_call_id"].as_str().unwrap();
        if quirks.longest_id.is_some_and(|max| id.len() > max) {
            return Some("the id is too long".into());
        }
    }
    None
}

async fn checked(quirks: Quirks) -> Report {
    let base_url = start(quirks).await;
    check(&Target { base_url, model: None, key: None, patience: Duration::from_secs(20) }).await.unwrap()
}

/// The dialect of a server that takes everything.
fn all_taken() -> ChatDialect {
    serde_json::from_value(json!({
        "maxTokensField": "max_tokens", "developerRole": true, "reasoningEffort": true, "usageInStream": true, "store": true,
        "toolResultName": false, "assistantAfterToolResult": false, "strictTools": true, "promptCacheKey": true,
    }))
    .unwrap()
}

/// X10.
#[tokio::test]
async fn a_server_that_takes_everything_has_the_plain_dialect_and_an_agent_works_with_it() {
    let report = checked(Quirks::default()).await;
    assert_eq!(report.dialect, all_taken());
    assert_eq!((report.model.as_str(), report.models.len()), ("small", 2));
    assert_eq!((report.images, report.works), (Some(true), Some(true)));
    assert!(report.answer("tools").unwrap().contains("weather is called with an id of 6 characters"));
    assert_eq!(report.answer("response_format json_schema"), Some("the answer fits the schema"));
    let text = report.to_string();
    assert!(text.contains("with_dialect") && text.contains("\"maxTokensField\": \"max_tokens\""), "{text}");
}

/// X10.
#[tokio::test]
async fn each_quirk_is_found_and_said_as_data() {
    #[track_caller]
    fn check(quirks: Quirks, change: fn(&mut ChatDialect)) -> impl Future<Output = ()> {
        let mut expected = all_taken();
        change(&mut expected);
        async move {
            let report = checked(quirks).await;
            assert_eq!(report.dialect, expected, "{report}");
            assert_eq!(report.works, Some(true), "{report}");
        }
    }
    let q = Quirks::default;
    check(Quirks { refuses: &["max_tokens"], ..q() }, |d| {
        d.max_tokens_field = Some("max_completion_tokens".into())
    })
    .await;
    check(Quirks { ignores: &["max_tokens"], ..q() }, |d| {
        d.max_tokens_field = Some("max_completion_tokens".into())
    })
    .await;
    check(Quirks { refuses: &["stream_options"], ..q() }, |d| d.usage_in_stream = Some(false)).await;
    check(Quirks { no_developer: true, ..q() }, |d| d.developer_role = Some(false)).await;
    check(Quirks { refuses: &["store", "prompt_cache_key"], ..q() }, |d| {
        d.store = Some(false);
        d.prompt_cache_key = Some(false);
    })
    .await;
    check(Quirks { refuses: &["strict"], ..q() }, |d| d.strict_tools = Some(false)).await;
    check(Quirks { refuses: &["reasoning_effort", "thinking"], ..q() }, |d| {
        d.reasoning_effort = Some(false);
        d.thinking_format = Some(ThinkingFormat::Qwen);
    })
    .await;
    check(Quirks { wants_names: true, ..q() }, |d| d.tool_result_name = Some(true)).await;
    check(Quirks { wants_bridge: true, ..q() }, |d| d.assistant_after_tool_result = Some(true)).await;
    check(Quirks { longest_id: Some(40), ..q() }, |d| d.max_tool_call_id = Some(40)).await;
    check(Quirks { thinks_in: Some("reasoning"), ..q() }, |d| {
        d.reasoning_field = Some(ReasoningField::Reasoning)
    })
    .await;
    check(Quirks { no_done: true, ..q() }, |_| {}).await;
}

#[tokio::test]
async fn what_cannot_be_said_as_data_stands_in_the_table() {
    let report =
        checked(Quirks { no_done: true, no_pictures: true, ignores: &["stop"], ..Quirks::default() }).await;
    assert!(report.answer("a plain question").unwrap().contains("no [DONE] at the end"));
    assert!(report.answer("a picture").unwrap().contains("content must be a string"));
    assert_eq!(report.answer("stop"), Some("is taken and has no effect"));
    assert_eq!(report.images, Some(false));
    let whole = checked(Quirks { whole: true, no_tools: true, ..Quirks::default() }).await;
    assert!(whole.answer("a plain question").unwrap().contains("one JSON body"));
    assert_eq!(whole.works, Some(false), "no tool was called");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_has_no_model_is_an_error_in_one_line() {
    let target = |base_url: &str, model: Option<&str>| Target {
        base_url: base_url.into(),
        model: model.map(str::to_owned),
        key: Some("sk-not-to-be-shown".into()),
        patience: Duration::from_secs(5),
    };
    let gone = check(&target("http://127.0.0.1:1/v1", Some("m"))).await.unwrap_err().to_string();
    assert!(gone.contains("does not answer") && !gone.contains("sk-not"), "{gone}");
    let nameless = check(&target("http://127.0.0.1:1/v1", None)).await.unwrap_err().to_string();
    assert!(nameless.contains("--model"), "{nameless}");
    let nowhere = check(&target("nowhere", Some("m"))).await.unwrap_err().to_string();
    assert!(nowhere.contains("no address"), "{nowhere}");
    let refusing = checked(Quirks { refuses: &["stream"], ..Quirks::default() }).await;
    assert!(refusing.answer("a plain question").unwrap().contains("refused with 400: unknown field stream"));
    assert_eq!(refusing.works, None);
}

/// A server that is not there is named with its cause, and not described as one without models.
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_with_its_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let target =
        Target { base_url: base_url.clone(), model: None, key: None, patience: Duration::from_secs(5) };
    let error = format!("{:#}", check(&target).await.unwrap_err());
    assert!(error.contains(&format!("{base_url}/models cannot be reached")), "{error}");
    assert!(error.contains("refused"), "{error}");
}
