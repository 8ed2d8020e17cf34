use agent_core::{History, ModelConfig};

use super::*;

#[track_caller]
fn refused(status: u16, body: &str) -> ProviderError {
    let model = ModelConfig::anthropic("claude-test", "Claude", "key");
    let request = ModelRequest::new(model, History::new());
    let error = rejected(&request, &Rejection { status, body: body.as_bytes(), error_type: None });
    assert_eq!(error.status(), Some(status));
    error
}

#[track_caller]
fn check(status: u16, kind: &str, message: &str, expect: ErrorKind) {
    let body = serde_json::json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"});
    let error = refused(status, &body.to_string());
    assert_eq!(error.kind(), expect, "{status} {kind}: {message}");
    let context = error.context().unwrap();
    assert_eq!((context.code.as_deref(), &*context.message), (Some(kind), message));
    assert_eq!(error.request_id(), Some("req_1"));
}

#[test]
fn a_refusal_means_what_its_type_says() {
    use ErrorKind as K;
    check(400, "invalid_request_error", "messages: Field required", K::Api);
    check(
        400,
        "invalid_request_error",
        "prompt is too long: 213462 tokens > 200000 maximum",
        K::ContextOverflow,
    );
    check(
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 1 + 2 > 3",
        K::ContextOverflow,
    );
    check(400, "invalid_request_error", "Your credit balance is too low to access the API", K::Quota);
    check(400, "invalid_request_error", "You have reached your specified API usage limits.", K::Quota);
    check(401, "authentication_error", "invalid x-api-key", K::Auth);
    check(402, "billing_error", "no", K::Quota);
    check(403, "permission_error", "no", K::Auth);
    check(404, "not_found_error", "model: claude-x", K::ModelNotFound);
    check(413, "request_too_large", "Request exceeds the maximum size", K::ContextOverflow);
    check(413, "invalid_request_error", "Request size exceeds model context window", K::ContextOverflow);
    check(413, "invalid_request_error", "no text that is known", K::ContextOverflow);
    check(429, "rate_limit_error", "40,000 input tokens per minute", K::RateLimited);
    check(500, "api_error", "Internal server error", K::Network);
    check(500, "api_error", "insufficient balance (1008)", K::Quota);
    check(500, "api_error", "the billing service is down", K::Network);
    check(403, "permission_error", "Insufficient balance", K::Quota);
    check(504, "timeout_error", "too long", K::Network);
    check(529, "overloaded_error", "Overloaded", K::Network);
}

#[test]
fn a_spent_limit_is_no_rate_limit_and_is_not_retried() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    let error = refused(429, body);
    assert_eq!(error.kind(), ErrorKind::Quota);
    assert!(!error.is_retryable());
}

#[test]
fn a_body_that_is_no_error_object_is_judged_by_its_status() {
    for (status, body, expect) in [
        (500, "upstream died", ErrorKind::Network),
        (529, "", ErrorKind::Network),
        (413, "", ErrorKind::ContextOverflow),
        (429, "{}", ErrorKind::RateLimited),
        (418, "[]", ErrorKind::Api),
        (401, "null", ErrorKind::Auth),
        (400, r#"{"error":{"type":"of_next_year","message":"credit balance too low"}}"#, ErrorKind::Quota),
    ] {
        assert_eq!(refused(status, body).kind(), expect, "{status} {body}");
    }
    assert!(refused(500, "upstream died").to_string().contains("upstream died"));
    let page = refused(502, "<html><title>Bad gateway</title></html>");
    assert_eq!(page.kind(), ErrorKind::Network);
    assert!(page.to_string().contains("HTML") && !page.to_string().contains("<html>"), "{page}");
}

#[test]
fn an_error_says_what_can_be_done() {
    let key = refused(401, r#"{"error":{"type":"authentication_error","message":"invalid x-api-key"}}"#);
    assert!(key.to_string().contains("ANTHROPIC_API_KEY"), "{key}");
    let model = refused(404, r#"{"error":{"type":"not_found_error","message":"model: x"}}"#);
    assert!(model.to_string().contains("model id"), "{model}");
}

#[test]
fn a_code_in_the_details_is_more_specific_than_the_type() {
    let kind_of = |code: &str, kind: &str| {
        let body = serde_json::json!({"type": "error", "error": {"type": kind, "message": "x", "details": {"error_code": code}}});
        let error = refused(403, &body.to_string());
        (error.kind(), error.context().unwrap().code.clone().unwrap())
    };
    for code in
        ["approval_required", "organization_not_eligible", "external_key_not_found", "change_outcome_unknown"]
    {
        assert_eq!(kind_of(code, "permission_error"), (ErrorKind::Api, code.to_owned()));
    }
    let check = "authorization_check_unavailable";
    assert_eq!(kind_of(check, "permission_error"), (ErrorKind::Network, check.to_owned()));
    assert_eq!(kind_of("new_code", "permission_error"), (ErrorKind::Auth, "permission_error".to_owned()));
}
