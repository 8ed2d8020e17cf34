//! What a model sees of an answer.

use std::sync::Arc;
use std::time::Duration;

use agent_core::{AgentTool as _, Content, SystemEnvironment, ToolContext, ToolError};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::support::{Api, CONSTRUCTS, Server, one, tool};

async fn api(answer: impl Fn() -> Response + Send + Sync + 'static) -> Api {
    Api::with(Server::answering(move |_| answer()).await, &one("/x", "get", json!({})), |config| config)
}

/// REQ-154.
#[tokio::test]
async fn a_result_is_a_line_and_the_body() {
    let server = Server::answering(|_| {
        (StatusCode::CREATED, [("content-type", "application/json")], r#"{"id":1}"#).into_response()
    })
    .await;
    let api = Api::with(server, CONSTRUCTS, |config| config);
    let arguments = json!({"id": "a b", "query_id": "c", "_request_body": {"id": 1}});
    let result = api.call("clash", arguments).await;
    let url = format!("{}/base/clash/a%20b?id=c", api.server.url());
    assert_eq!(result.to_text(), format!("POST {url} → 201 Created\n\n{{\"id\":1}}"));
    assert_eq!(result.details, json!({"status": 201, "method": "POST", "url": url}));
    assert!(!result.is_error);
}

/// D23.
#[tokio::test]
async fn an_answer_that_is_no_success_is_a_result() {
    for status in [400_u16, 404, 429, 500] {
        let api = api(move || {
            (StatusCode::from_u16(status).unwrap(), [("retry-after", "7")], "why").into_response()
        })
        .await;
        let result = api.call("call", json!({})).await;
        assert!(!result.is_error && result.to_text().ends_with("\n\nwhy"), "{}", result.to_text());
        assert_eq!(
            (&result.details["status"], &result.details["retry_after"]),
            (&json!(status), &json!("7"))
        );
    }
}

#[tokio::test]
async fn bodies_are_shown_by_what_they_are() {
    async fn check(kind: &'static str, bytes: &'static [u8], expected: &str) {
        let api = api(move || ([("content-type", kind)], bytes).into_response()).await;
        let text = api.call("call", json!({})).await.to_text();
        assert_eq!(text.split_once("\n\n").unwrap().1, expected, "{kind}");
    }
    check("application/json", b"{\"a\": 1}", "{\"a\": 1}").await;
    check("application/problem+json", b"{}", "{}").await;
    check("text/html; charset=utf-8", "é".as_bytes(), "é").await;
    check("text/plain; charset=ISO-8859-1", b"\xE9", "é").await;
    check("text/plain", b"\xFFa", "\u{FFFD}a").await;
    check("application/x-unheard-of", b"words", "words").await;
    check("application/octet-stream", b"words", "words").await;
    check("application/pdf", b"%PDF\0\xFF", "[application/pdf, 6 bytes, which cannot be shown here]").await;
    check(
        "application/x-unheard-of",
        b"\xFF\xFE",
        "[application/x-unheard-of, 2 bytes, which cannot be shown here]",
    )
    .await;
    check("image/png", b"no picture", "no picture").await;
    check("application/json", b"", "[no body]").await;
}

#[tokio::test]
async fn what_is_packed_is_not_shown_as_text() {
    let api =
        api(|| ([("content-type", "text/plain"), ("content-encoding", "br")], "abc").into_response()).await;
    assert!(api.call("call", json!({})).await.to_text().ends_with("3 bytes, which cannot be shown here]"));
}

#[tokio::test]
async fn pictures_are_pictures() {
    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";
    for kind in ["image/png", "application/octet-stream"] {
        let api = api(move || ([("content-type", kind)], PNG).into_response()).await;
        let result = api.call("call", json!({})).await;
        assert_eq!(result.content.len(), 2);
        assert!(matches!(&result.content[1], Content::Image(_)), "{:?}", result.content);
        assert!(result.to_text().ends_with("[image/png, 18 bytes]"), "{}", result.to_text());
    }
}

/// REQ-154.
#[tokio::test]
async fn long_texts_keep_their_beginning_and_their_end() {
    let long = format!("begin{}end", "é".repeat(5000));
    let body = long.clone();
    let server = Server::answering(move |_| body.clone().into_response()).await;
    let api = Api::with(server, &one("/x", "get", json!({})), |config| config.with_max_response_bytes(1000));
    let result = api.call("call", json!({})).await;
    let text = result.to_text();
    let text = text.split_once("\n\n").unwrap().1;
    assert!((990..=1000).contains(&text.len()), "{}", text.len());
    assert!(text.starts_with("beginé") && text.ends_with("éend") && text.contains("[truncated: "), "{text}");
    assert_eq!(result.details["truncated"], true);
}

#[tokio::test]
async fn an_answer_without_end_is_read_up_to_a_bound() {
    let api = api(|| {
        let chunk = || Ok::<_, std::io::Error>(vec![b'x'; 64 * 1024]);
        Body::from_stream(stream::repeat_with(chunk)).into_response()
    })
    .await;
    let result = api.call("call", json!({})).await;
    assert!(result.to_text().ends_with("[the answer is longer than 8388608 bytes; the rest was not read]"));
    assert!(result.to_text().len() < 70_000);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_shown_as_far_as_it_came() {
    let api = api(|| {
        let first = stream::once(async { Ok("the first part") });
        let rest = stream::once(async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            Err(std::io::Error::other("gone"))
        });
        Body::from_stream(first.chain(rest)).into_response()
    })
    .await;
    let result = api.call("call", json!({})).await;
    assert!(
        result.is_error && result.to_text().contains("the first part\n[the answer broke off here: "),
        "{result:?}"
    );
}

async fn silent() -> Api {
    let server = Server::answering(|_| {
        Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>()).into_response()
    })
    .await;
    Api::with(server, &one("/x", "get", json!({})), |config| config.with_timeout(Duration::from_millis(200)))
}

/// REQ-154.
#[tokio::test]
async fn a_call_that_takes_too_long_is_an_error() {
    let api = silent().await;
    let error = super::support::execute(&tool(&api.adapter, "call"), json!({})).await.unwrap_err();
    assert!(error.to_string().contains("GET /x was not answered within 200ms"), "{error}");
}

#[tokio::test]
async fn a_call_ends_when_the_run_is_aborted() {
    let server = Server::answering(|_| {
        Body::from_stream(stream::pending::<Result<Vec<u8>, std::io::Error>>()).into_response()
    })
    .await;
    let api = Api::with(server, &one("/x", "get", json!({})), |config| config);
    let tool = tool(&api.adapter, "call");
    let ctx = ToolContext::detached(tool.name(), Arc::new(SystemEnvironment));
    let cancel = ctx.cancel.clone();
    let call = tokio::spawn(async move { tool.execute(json!({}), ctx).await });
    while api.server.take().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cancel.cancel();
    assert_eq!(call.await.unwrap(), Err(ToolError::Cancelled));
}
