//! Errors of the API: an error response, an error event or an interrupted stream.

#[cfg(test)]
mod tests;

use agent_core::provider::error::classify_kind;
use agent_core::provider::overflow::{is_overflow_text, is_quota_text, is_spent_text};
use agent_core::{ErrorKind, ModelRequest, ProviderError};

use super::wire::{ErrorAnswer, ErrorBody};
use crate::protocol::Rejection;
use crate::rejection::{self, Target};

/// The text of the error for a prompt that fits only without the output limit.
const NO_ROOM: &str = "exceed context limit";

/// The codes of errors that are more specific than their type. Only the check that is not available is worth a retry.
const CODES: &[(&str, ErrorKind)] = &[
    ("approval_required", ErrorKind::Api),
    ("human_review_not_available", ErrorKind::Api),
    ("organization_not_eligible", ErrorKind::Api),
    ("cmek_not_approved", ErrorKind::Api),
    ("external_key_not_found", ErrorKind::Api),
    ("change_outcome_unknown", ErrorKind::Api),
    ("authorization_check_unavailable", ErrorKind::Network),
];

/// Returns the code of an error and its kind if the code is known.
fn known_code<'b>(body: &'b ErrorBody<'_>) -> Option<(&'b str, ErrorKind)> {
    let said = body.details.as_ref()?.error_code.as_str();
    CODES.iter().find(|(code, _)| *code == said).map(|(_, kind)| (said, *kind))
}

/// Parses an error response. The transport adds the delay, and the request id if the body has none.
pub(crate) fn rejected(request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
    if rejection::is_html(rejection.body) {
        return rejection::read(request, rejection);
    }
    let text = String::from_utf8_lossy(rejection.body);
    let answer: ErrorAnswer<'_> = serde_json::from_str(&text).unwrap_or_default();
    let body = answer.error.unwrap_or_default();
    let code = known_code(&body).map(|(code, _)| code).or(body.kind.filled());
    let message = body.message.filled().unwrap_or_else(|| text.trim());
    let kind = kind_of(Some(rejection.status), &body, message);
    Target::of(request).fail(kind, message, code).map_context(|context| {
        context.status = Some(rejection.status);
        context.request_id = answer.request_id.filled().map(str::to_owned);
        context.advice =
            rejection::advice(kind, &request.model).or_else(|| rejection::setting(request, message));
    })
}

/// Parses an error event, or an error body with a successful status.
pub(super) fn event(target: &Target, body: &ErrorBody<'_>, request_id: Option<&str>) -> ProviderError {
    let message = body.message.filled().unwrap_or("the stream reported an error and did not say which");
    let code = known_code(body).map(|(code, _)| code).or(body.kind.filled());
    let error = target.fail(kind_of(None, body, message), message, code);
    error.map_context(|context| context.request_id = request_id.map(str::to_owned))
}

/// Returns the error of a stream that ended before its terminal event.
pub(super) fn cut(target: &Target) -> ProviderError {
    target.fail(ErrorKind::Network, "the stream ended before message_stop: the reply is incomplete", None)
}

/// Returns the error of a frame that is not an event.
pub(super) fn unreadable(target: &Target, cause: serde_json::Error) -> ProviderError {
    target
        .fail(ErrorKind::Network, "the stream holds an event that cannot be read", None)
        .map_context(|context| context.source = Some(cause.into()))
}

/// Classifies an error by the vendor's type, which is more specific than the status, or by status and text if the type
/// is unknown.
fn kind_of(status: Option<u16>, body: &ErrorBody<'_>, message: &str) -> ErrorKind {
    let spent = body.details.as_ref().is_some_and(|d| d.error_code.as_str().contains("spend_limit"));
    if is_spent_text(message) {
        return ErrorKind::Quota;
    }
    if let Some((_, kind)) = known_code(body) {
        return kind;
    }
    match body.kind.as_str() {
        "rate_limit_error" if spent || is_quota_text(message) => ErrorKind::Quota,
        "rate_limit_error" => ErrorKind::RateLimited,
        "overloaded_error" | "api_error" | "timeout_error" => ErrorKind::Network,
        "authentication_error" | "permission_error" => ErrorKind::Auth,
        "billing_error" => ErrorKind::Quota,
        "not_found_error" => ErrorKind::ModelNotFound,
        "request_too_large" => ErrorKind::ContextOverflow,
        "invalid_request_error"
            if status == Some(413) || is_overflow_text(message) || message.contains(NO_ROOM) =>
        {
            ErrorKind::ContextOverflow
        }
        "invalid_request_error" if spent || is_quota_text(message) => ErrorKind::Quota,
        "invalid_request_error" => ErrorKind::Api,
        _ => match status {
            Some(400) if is_quota_text(message) => ErrorKind::Quota,
            Some(status) => classify_kind(status, message),
            None if is_overflow_text(message) => ErrorKind::ContextOverflow,
            None if is_quota_text(message) => ErrorKind::Quota,
            None => ErrorKind::Api,
        },
    }
}
