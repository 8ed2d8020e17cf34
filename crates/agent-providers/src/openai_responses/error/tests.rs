//! What errors of a stream mean.

use agent_core::ErrorKind;
use serde_json::json;

use std::time::Duration;

use super::*;

#[track_caller]
fn check(code: &str, message: &str, kind: ErrorKind) {
    let error = event(&json!({"code": code, "message": message}).to_string());
    assert_eq!(error.kind(), kind, "{code}");
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.context().unwrap().code.as_deref(), Some(code));
}

/// REQ-167, REQ-072.
#[test]
fn the_vendors_code_decides_whether_to_try_again() {
    check("server_error", "x", ErrorKind::Network);
    check("vector_store_timeout", "x", ErrorKind::Network);
    check("InternalServerError", "x", ErrorKind::Network);
    check("rate_limit_exceeded", "x", ErrorKind::RateLimited);
    check("insufficient_quota", "x", ErrorKind::Quota);
    check("context_length_exceeded", "x", ErrorKind::ContextOverflow);
    check("model_not_found", "x", ErrorKind::ModelNotFound);
    check("invalid_prompt", "x", ErrorKind::Api);
    check("image_too_large", "x", ErrorKind::Api);
    check("a_code_of_next_year", "x", ErrorKind::Api);
    check("503", "x", ErrorKind::Network);
    check("400", "x", ErrorKind::Api);
}

#[test]
fn an_error_that_says_nothing_is_still_one_and_may_be_tried_again() {
    assert!(failed(None).is_retryable());
    assert!(event("{}").is_retryable());
    assert!(event("null").is_retryable());
    let long = event(&json!("x".repeat(100_000)).to_string());
    assert!(long.to_string().len() < 10_000);
}

#[track_caller]
fn waits(text: &str, expect: Option<u64>) {
    let error = event(&json!({"code": "rate_limit_exceeded", "message": text}).to_string());
    assert_eq!(error.retry_after(), expect.map(Duration::from_millis), "{text}");
}

/// REQ-073.
#[test]
fn a_wait_that_only_the_text_names_is_read() {
    waits("Rate limit reached. Please try again in 1.5s. Visit https://example.org.", Some(1_500));
    waits("Please try again in 250ms.", Some(250));
    waits("Please retry after 7 seconds.", Some(7_000));
    waits("Try again in 2m.", Some(120_000));
    waits("Try again in 1h30m.", Some(5_400_000));
    waits("Please try again in 1m26.5s.", Some(86_500));
    waits("Please try again in a moment.", None);
    waits("Please try again in .s", None);
    waits("Please try again in 99999999999999999999h", None);
    waits("Too fast.", None);
}
