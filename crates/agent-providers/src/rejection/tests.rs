//! What vendors' errors mean.

use super::*;

#[track_caller]
fn check(status: u16, body: &str, kind: ErrorKind, message: &str) {
    let request = ModelRequest::new(ModelConfig::openai("gpt-x", "X", "sk-key"), agent_core::History::new());
    let error = read(&request, &Rejection { status, body: body.as_bytes(), error_type: None });
    assert_eq!(error.kind(), kind, "{status} {body}");
    assert_eq!(error.context().unwrap().message, message, "{status} {body}");
    assert_eq!(error.status(), Some(status));
}

/// REQ-075.
#[test]
fn every_shape_of_error_body_is_read() {
    check(401, r#"{"error":{"message":"Bad key","type":"x","code":"y"}}"#, ErrorKind::Auth, "Bad key");
    check(404, r#"{"error":"model 'm' not found"}"#, ErrorKind::ModelNotFound, "model 'm' not found");
    check(
        400,
        r#"{"object":"error","message":"Invalid model: m","type":"invalid_model"}"#,
        ErrorKind::ModelNotFound,
        "Invalid model: m",
    );
    check(422, r#"{"detail":[{"loc":["body"]}]}"#, ErrorKind::Api, r#"[{"loc":["body"]}]"#);
    check(400, r#"[{"error":{"code":400,"message":"odd"}}]"#, ErrorKind::Api, "odd");
    check(500, "upstream down", ErrorKind::Network, "upstream down");
    check(
        429,
        r#"{"error":{"message":"Provider returned error","metadata":{"raw":"later"}}}"#,
        ErrorKind::RateLimited,
        "Provider returned error: later",
    );
}

/// REQ-075, REQ-076, B-163.
#[test]
fn codes_and_phrases_decide_what_a_status_leaves_open() {
    check(
        400,
        r#"{"error":{"message":"long","code":"context_length_exceeded"}}"#,
        ErrorKind::ContextOverflow,
        "long",
    );
    check(
        429,
        r#"{"error":{"message":"long","code":"context_length_exceeded"}}"#,
        ErrorKind::RateLimited,
        "long",
    );
    check(413, "", ErrorKind::ContextOverflow, "");
    check(429, r#"{"error":{"message":"no more","code":"insufficient_quota"}}"#, ErrorKind::Quota, "no more");
    check(
        400,
        r#"{"error":{"message":"API key not valid. Pass one"}}"#,
        ErrorKind::Auth,
        "API key not valid. Pass one",
    );
    check(
        529,
        r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#,
        ErrorKind::Network,
        "Overloaded",
    );
    check(408, "", ErrorKind::Network, "");
    check(400, r#"{"error":{"message":"code 4291 is odd"}}"#, ErrorKind::Api, "code 4291 is odd");
}

#[test]
fn a_web_page_is_named_as_one() {
    let page = "<!doctype html><html><head><title>Not Found</title>";
    check(404, page, ErrorKind::Api, "the answer is an HTML page titled \"Not Found\", not JSON");
    check(502, "<html>", ErrorKind::Network, "the answer is an HTML page, not JSON");
}

#[test]
fn an_error_in_a_stream_without_a_status_is_judged_by_its_words() {
    let kind = |json: &str| VendorError::from_body(json.as_bytes()).unwrap().in_stream().kind();
    assert_eq!(kind(r#"{"error":{"message":"x","type":"server_error"}}"#), ErrorKind::Network);
    assert_eq!(kind(r#"{"error":{"message":"x","type":"invalid_request_error"}}"#), ErrorKind::Api);
    assert_eq!(kind(r#"{"error":{"message":"x","code":429}}"#), ErrorKind::RateLimited);
    assert_eq!(kind(r#"{"error":{"message":"prompt is too long"}}"#), ErrorKind::ContextOverflow);
    assert_eq!(kind(r#"{"error":"runner died"}"#), ErrorKind::Network);
}

#[test]
fn advice_names_where_the_key_is_kept() {
    let request = ModelRequest::new(ModelConfig::openai("gpt-x", "X", "sk-key"), agent_core::History::new());
    let error = read(&request, &Rejection { status: 401, body: b"", error_type: None });
    assert!(error.to_string().contains("OPENAI_API_KEY"), "{error}");
}
