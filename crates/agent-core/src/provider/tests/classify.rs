//! What a status means, and what an error says.

use std::time::Duration;

use crate::provider::error::MAX_VENDOR_TEXT;
use crate::provider::{ErrorContext, ErrorKind, ProviderError};

#[track_caller]
fn check(status: u16, text: &str, expect: ErrorKind) {
    let error = ProviderError::classify(status, text);
    assert_eq!((error.kind(), error.status()), (expect, Some(status)), "{status} {text}");
    assert_eq!(
        error.is_retryable(),
        matches!(expect, ErrorKind::RateLimited | ErrorKind::Network),
        "{status}"
    );
}

/// REQ-075, REQ-020.
#[test]
fn a_status_and_a_text_give_a_kind() {
    check(429, "slow down", ErrorKind::RateLimited);
    check(429, "", ErrorKind::RateLimited);
    check(429, "prompt is too long", ErrorKind::RateLimited);
    check(402, "", ErrorKind::Quota);
    check(401, "invalid key", ErrorKind::Auth);
    check(403, "", ErrorKind::Auth);
    check(404, "no such model", ErrorKind::ModelNotFound);
    check(408, "", ErrorKind::Network);
    for status in [500, 502, 503, 504, 529] {
        check(status, "overloaded", ErrorKind::Network);
    }
    check(400, "unknown field", ErrorKind::Api);
    check(400, "", ErrorKind::ContextOverflow);
    check(400, "prompt is too long", ErrorKind::ContextOverflow);
    check(418, "", ErrorKind::Api);
}

/// B-164.
#[test]
fn digits_in_a_text_are_not_taken_for_a_status() {
    check(400, "request 4290503 is not valid", ErrorKind::Api);
    check(400, "field 429 is not valid", ErrorKind::Api);
}

/// REQ-072.
#[test]
fn only_haste_and_broken_connections_are_tried_again() {
    use ErrorKind::{
        Api, Auth, Cancelled, ContextOverflow, ModelNotFound, Network, Other, Quota, RateLimited,
    };
    for kind in [Api, Auth, Cancelled, ContextOverflow, ModelNotFound, Network, Other, Quota, RateLimited] {
        let error = ProviderError::new(kind, ErrorContext::new("x"));
        assert_eq!(error.kind(), kind);
        assert_eq!(error.is_retryable(), matches!(kind, Network | RateLimited), "{kind:?}");
        assert_eq!(error.context().is_none(), kind == Cancelled);
    }
}

/// REQ-020.
#[test]
fn an_error_says_who_failed_how_and_what_to_do_and_keeps_its_cause() {
    let cause = std::io::Error::other("reset by peer");
    let context = ErrorContext::new("connection lost")
        .with_target("anthropic", "claude")
        .with_status(503)
        .with_advice("try again later")
        .with_source(cause);
    let error =
        ProviderError::new(ErrorKind::Network, context).map_context(|c| c.request_id = Some("req_1".into()));
    assert_eq!(error.to_string(), "anthropic (claude) answered 503: connection lost (try again later)");
    assert_eq!(error.request_id(), Some("req_1"));
    let mut last: &dyn std::error::Error = &error;
    while let Some(next) = last.source() {
        last = next;
    }
    assert_eq!(last.to_string(), "reset by peer");
    assert_eq!(ProviderError::classify(500, " ").to_string(), "the provider answered 500");
    assert_eq!(ProviderError::Cancelled.to_string(), "Request was aborted");
}

/// REQ-073.
#[test]
fn the_wait_that_was_asked_for_is_kept() {
    let asked =
        ProviderError::classify(429, "").map_context(|c| c.retry_after = Some(Duration::from_millis(1_500)));
    assert_eq!(asked.retry_after(), Some(Duration::from_millis(1_500)));
    assert_eq!(ProviderError::classify(429, "").retry_after(), None);
    assert_eq!(ProviderError::Cancelled.map_context(|c| c.status = Some(1)).retry_after(), None);
}

#[test]
fn a_vendors_text_is_bounded_on_a_character_boundary() {
    let error = ErrorContext::new("é".repeat(10_000));
    assert!(error.message.len() <= MAX_VENDOR_TEXT + "…".len() && error.message.ends_with('…'));
    assert_eq!(ErrorContext::new("short").message, "short");
}
