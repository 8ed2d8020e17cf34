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

/// A gateway that refuses a body by its size answers so, and a shorter conversation has a shorter body.
#[test]
fn a_web_page_that_refuses_the_size_of_the_request_is_an_overflow() {
    let page = "<html><head><title>413 Request Entity Too Large</title></head><body><center><h1>413 Request Entity \
                Too Large</h1></center><hr><center>nginx</center></body></html>";
    let says = "the answer is an HTML page titled \"413 Request Entity Too Large\", not JSON";
    check(413, page, ErrorKind::ContextOverflow, says);
}

/// B-163, B-160. Bodies of real servers.
#[test]
fn a_body_of_a_real_server_means_what_it_says() {
    use ErrorKind as K;
    for (status, body, kind) in [
        (
            500,
            r#"{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}"#,
            K::Quota,
        ),
        (
            401,
            r#"{"message":"Insufficient balance. Manage your billing here: x","type":"CreditsError","code":null}"#,
            K::Quota,
        ),
        (
            403,
            r#"{"code":30011,"message":"The selected model requires paid balance. Your paid balance is insufficient.","data":null}"#,
            K::Quota,
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Request size exceeds model context window"}}"#,
            K::ContextOverflow,
        ),
        (
            400,
            r#"{"error":"Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}"#,
            K::ContextOverflow,
        ),
        (
            403,
            r#"{"error":{"message":"openai/gpt-x requires moderation on OpenRouter. Your input was flagged for \"violence\". No credits were charged.","code":403,"metadata":{"reasons":["violence"],"flagged_input":"...","provider_name":"OpenAI","model_slug":"openai/gpt-x"}}}"#,
            K::Api,
        ),
        (
            403,
            r#"{"error":{"message":"Key limit exceeded","code":403,"metadata":{"provider_name":"OpenAI"}}}"#,
            K::Auth,
        ),
        (500, r#"{"error":{"message":"the billing service is down"}}"#, K::Network),
    ] {
        let request =
            ModelRequest::new(ModelConfig::openai("gpt-x", "X", "sk-key"), agent_core::History::new());
        let error = read(&request, &Rejection { status, body: body.as_bytes(), error_type: None });
        assert_eq!(error.kind(), kind, "{status} {body}");
        let in_stream = VendorError::from_body(body.as_bytes()).unwrap().in_stream();
        if matches!(kind, K::Quota | K::ContextOverflow | K::Api) {
            assert_eq!(in_stream.kind(), kind, "in a stream: {body}");
        }
        let is_refusal = error.context().unwrap().code.as_deref() == Some("refusal");
        assert_eq!(is_refusal, kind == K::Api, "{status} {body}");
    }
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

#[test]
fn a_refused_setting_is_named() {
    let advice = |level: ThinkingLevel, message: &str| {
        let mut request =
            ModelRequest::new(ModelConfig::openai("gpt-x", "X", "sk-key"), agent_core::History::new());
        request.options.thinking_level = level;
        let body = serde_json::json!({ "error": message }).to_string();
        let error = read(&request, &Rejection { status: 400, body: body.as_bytes(), error_type: None });
        error.context().unwrap().advice.clone()
    };
    for message in ["\"m\" does not support thinking", "Unsupported parameter: 'reasoning_effort'"] {
        let said = advice(ThinkingLevel::High, message).unwrap();
        assert!(said.contains("thinking level high") && said.contains("--thinking off"), "{said}");
        assert_eq!(advice(ThinkingLevel::Off, message), None);
    }
    assert_eq!(advice(ThinkingLevel::High, "messages: field required"), None);
}
