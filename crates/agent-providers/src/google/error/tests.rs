//! What refusals mean.

use agent_core::{History, ModelConfig};
use serde_json::json;

use super::*;

fn request(api: ApiProtocol) -> ModelRequest {
    let model = match api {
        ApiProtocol::GoogleVertex => ModelConfig::vertex("p", "r", "gemini-x"),
        _ => ModelConfig::google("gemini-x", "X", "AIza-secret"),
    };
    ModelRequest::new(model, History::new())
}

fn refused(status: u16, body: &str) -> ProviderError {
    rejected(
        &request(ApiProtocol::GoogleGenerativeAi),
        &Rejection { status, body: body.as_bytes(), error_type: None },
    )
}

fn body(code: u16, message: &str, details: &serde_json::Value) -> String {
    json!({"error": {"code": code, "message": message, "status": "S", "details": details}}).to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without references")]
#[track_caller]
fn check(status: u16, message: &str, details: serde_json::Value, expect: ErrorKind) {
    let text = body(status, message, &details);
    for text in [text.clone(), format!("[{text}]")] {
        let error = refused(status, &text);
        assert_eq!((error.kind(), error.status()), (expect, Some(status)), "{text}: {error}");
        assert_eq!(error.context().unwrap().message, message);
    }
    let alone = in_stream(&text);
    assert_eq!(alone.kind(), expect, "in a stream: {text}");
}

const PLAN: &str = "You exceeded your current quota, please check your plan and billing details.";

/// REQ-167, REQ-075.
#[test]
fn status_reason_and_limits_become_a_kind() {
    check(400, "Request contains an invalid argument.", json!([]), ErrorKind::Api);
    check(400, "API key not valid. Please pass a valid API key.", json!([]), ErrorKind::Auth);
    check(400, "API key expired.", json!([{"reason": "API_KEY_INVALID"}]), ErrorKind::Auth);
    let long = "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).";
    check(400, long, json!([]), ErrorKind::ContextOverflow);
    check(
        400,
        "The free tier is not available in your country. Please enable billing.",
        json!([]),
        ErrorKind::Quota,
    );
    check(400, "User location is not supported for the API use.", json!([]), ErrorKind::Api);
    check(401, "Request had invalid authentication credentials.", json!([]), ErrorKind::Auth);
    check(403, "denied", json!([{"reason": "IAM_PERMISSION_DENIED"}]), ErrorKind::Auth);
    check(403, "off", json!([{"reason": "BILLING_DISABLED"}]), ErrorKind::Quota);
    check(404, "models/x is not found for API version v1beta", json!([]), ErrorKind::ModelNotFound);
    check(429, "Resource exhausted. Please try again later.", json!([]), ErrorKind::RateLimited);
    check(429, PLAN, json!([]), ErrorKind::Quota);
    check(429, PLAN, json!([{"retryDelay": "38s"}]), ErrorKind::RateLimited);
    let per_day = json!([{"violations": [{"quotaId": "RequestsPerDayPerProject"}]}, {"retryDelay": "38s"}]);
    check(429, PLAN, per_day, ErrorKind::Quota);
    let per_minute =
        json!([{"reason": "RATE_LIMIT_EXCEEDED", "metadata": {"quota_limit": "RequestsPerMinute"}}]);
    check(429, "Quota exceeded for quota metric", per_minute, ErrorKind::RateLimited);
    check(499, "The operation was cancelled.", json!([]), ErrorKind::Network);
    check(500, "An internal error has occurred.", json!([]), ErrorKind::Network);
    check(503, "The model is overloaded.", json!("no list"), ErrorKind::Network);
    check(500, "insufficient balance", json!([]), ErrorKind::Quota);
    check(
        413,
        "Request payload size exceeds the limit: 20971520 bytes.",
        json!([]),
        ErrorKind::ContextOverflow,
    );
    check(504, "Deadline expired.", json!([1, {"retryDelay": 3}, null]), ErrorKind::Network);
}

/// REQ-073.
#[test]
fn the_wait_that_the_details_ask_for_is_kept() {
    for (said, millis) in [
        ("38s", Some(38_000)),
        ("1.5s", Some(1_500)),
        ("0s", Some(0)),
        ("soon", None),
        ("-3s", None),
        ("1e99s", None),
    ] {
        let error = refused(429, &body(429, "slow", &json!([{"retryDelay": said}])));
        assert_eq!(error.retry_after().map(|d| d.as_millis()), millis, "{said}");
    }
}

#[test]
fn the_vendors_word_and_an_advice_are_kept_and_no_key() {
    let error = refused(400, &body(400, "API key not valid.", &json!([{"reason": "API_KEY_INVALID"}])));
    assert_eq!(error.context().unwrap().code.as_deref(), Some("API_KEY_INVALID"));
    assert!(error.to_string().contains("GEMINI_API_KEY"), "{error}");
    assert!(!format!("{error:?}").contains("secret"));
    let vertex = |status: u16| {
        let text = body(status, "no", &json!([]));
        rejected(
            &request(ApiProtocol::GoogleVertex),
            &Rejection { status, body: text.as_bytes(), error_type: None },
        )
        .to_string()
    };
    assert!(vertex(403).contains("roles/aiplatform.user"), "{}", vertex(403));
    assert!(vertex(404).contains("region"), "{}", vertex(404));
}

#[test]
fn what_is_no_error_of_the_vendor_is_read_as_of_a_gateway() {
    assert_eq!(refused(502, "<html><title>Bad Gateway</title></html>").kind(), ErrorKind::Network);
    assert!(refused(404, "no such page").to_string().contains("no such page"));
    assert_eq!(refused(400, "{}").kind(), refused(400, "{}").kind());
    assert_eq!(in_stream("{").kind(), ErrorKind::Network);
    assert_eq!(in_stream(r#"{"error":{}}"#).kind(), ErrorKind::Network);
}
