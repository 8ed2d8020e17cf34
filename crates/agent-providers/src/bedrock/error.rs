//! Errors of the API: an error response, an exception in the stream or an interrupted stream.

#[cfg(test)]
mod tests;

use agent_core::provider::error::classify_kind;
use agent_core::provider::overflow::{is_overflow_text, is_quota_text, is_spent_text};
use agent_core::{ErrorContext, ErrorKind, ModelRequest, ProviderError, Secret};

use super::wire::ErrorBody;
use crate::protocol::Rejection;
use crate::rejection::{self, Target};

/// The text after which a message about a wrong signature quotes the signed request, including a temporary credential.
const SIGNED: &str = "The Canonical String";

/// Texts by which the vendor's own models report a conversation that is too long, beyond the texts common to all providers.
const TOO_LONG: &[&str] = &["too many input tokens", "input tokens exceeded", "input tokens exceeds maximum"];

/// Texts that report an unknown model id.
const NO_MODEL: &[&str] = &["model identifier is invalid", "invalid model", "not a valid model"];

/// The shortest part of a key that is searched for in a vendor's text.
const MIN_REDACTED: usize = 8;

/// Parses an error response. The transport adds the delay and the request id.
pub(super) fn rejected(request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
    if rejection::is_html(rejection.body) {
        return rejection::read(request, rejection);
    }
    let text = String::from_utf8_lossy(rejection.body);
    let body: ErrorBody<'_> = serde_json::from_str(&text).unwrap_or_default();
    let code = rejection.error_type.or(body.name()).map(name);
    let message = redact(request, body.said().unwrap_or_else(|| text.trim()));
    let kind = kind_of(Some(rejection.status), code.unwrap_or_default(), &message);
    Target::of(request).fail(kind, &message, code).map_context(|context| {
        context.status = Some(rejection.status);
        context.advice = advice(kind, &message, request).or_else(|| rejection::setting(request, &message));
    })
}

/// Parses an exception or an error in the stream.
pub(super) fn exception(target: &Target, code: &str, payload: &str) -> ProviderError {
    let body: ErrorBody<'_> = serde_json::from_str(payload).unwrap_or_default();
    let code = if code.is_empty() { body.name().unwrap_or_default() } else { code };
    let code = name(code);
    let mut message = body.said().unwrap_or_else(|| payload.trim()).to_owned();
    if let Some(original) = body.original_message.filled().filter(|o| !message.contains(o)) {
        message.push_str(": ");
        message.push_str(original);
    }
    if message.is_empty() || message == "{}" {
        message = format!("the stream reported {}", if code.is_empty() { "an error" } else { code });
    }
    target.fail(kind_of(None, code, &message), &message, (!code.is_empty()).then_some(code))
}

/// Returns the error of a stream that ended before its terminal event.
pub(super) fn cut(target: &Target) -> ProviderError {
    target.fail(ErrorKind::Network, "the stream ended before messageStop: the reply is incomplete", None)
}

/// Returns the error of a frame that is not an event.
pub(super) fn unreadable(target: &Target, cause: serde_json::Error) -> ProviderError {
    target
        .fail(ErrorKind::Network, "the stream holds an event that cannot be read", None)
        .map_context(|context| context.source = Some(cause.into()))
}

/// Returns the error of a request that could not be signed.
pub(super) fn unsigned(request: &ModelRequest, kind: ErrorKind, message: &str) -> ProviderError {
    let model = &request.model;
    let context = ErrorContext::new(redact(request, message))
        .with_target(&*model.provider, &*model.id)
        .with_advice("check the AWS credentials: keys, profile, or role");
    ProviderError::new(kind, context)
}

/// Returns the name of an error without its namespace and the address that follows.
fn name(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or_default();
    code.rsplit('#').next().unwrap_or_default().trim()
}

/// Classifies an error by the vendor's name for it, which is more specific than the status. Names begin with a capital
/// in responses and with a small letter in streams.
fn kind_of(status: Option<u16>, code: &str, message: &str) -> ErrorKind {
    let lower = message.to_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|t| lower.contains(t));
    let too_long = status == Some(413) || is_overflow_text(message) || says(TOO_LONG);
    if is_spent_text(message) {
        return ErrorKind::Quota;
    }
    match code.to_ascii_lowercase().trim_end_matches("exception") {
        "throttling" | "toomanyrequests" | "requestlimitexceeded" if is_quota_text(message) => {
            ErrorKind::Quota
        }
        // A model that is not ready is being loaded, so a retry may succeed.
        "throttling" | "toomanyrequests" | "requestlimitexceeded" | "modelnotready" => ErrorKind::RateLimited,
        "servicequotaexceeded" => ErrorKind::Quota,
        "accessdenied"
        | "expiredtoken"
        | "unrecognizedclient"
        | "invalidsignature"
        | "incompletesignature"
        | "signaturedoesnotmatch"
        | "missingauthenticationtoken"
        | "optinrequired"
        | "notauthorized"
        | "invalidclienttokenid" => ErrorKind::Auth,
        "resourcenotfound" => ErrorKind::ModelNotFound,
        "modeltimeout"
        | "serviceunavailable"
        | "internalserver"
        | "internalfailure"
        | "internalservererror"
        | "internalerror" => ErrorKind::Network,
        "modelstreamerror" if !too_long => ErrorKind::Network,
        "validation" | "modelstreamerror" if too_long => ErrorKind::ContextOverflow,
        "validation" if says(NO_MODEL) => ErrorKind::ModelNotFound,
        "validation" if is_quota_text(message) => ErrorKind::Quota,
        "validation" => ErrorKind::Api,
        _ => match status {
            Some(400) if says(TOO_LONG) => ErrorKind::ContextOverflow,
            Some(status) => classify_kind(status, message),
            None if too_long => ErrorKind::ContextOverflow,
            None if is_quota_text(message) => ErrorKind::Quota,
            // The stream has started, so the request was accepted and the failure is the vendor's.
            None => ErrorKind::Network,
        },
    }
}

fn advice(kind: ErrorKind, message: &str, request: &ModelRequest) -> Option<String> {
    let lower = message.to_lowercase();
    if lower.contains("on-demand throughput") {
        return Some(format!(
            "use the id of an inference profile in place of {:?}, such as one that begins with us., eu. or global.",
            request.model.id
        ));
    }
    if kind == ErrorKind::Auth && (lower.contains("access to the model") || lower.contains("not authorized"))
    {
        return Some(
            "ask for access to this model in the Bedrock console, and check the policy of the role"
                .to_owned(),
        );
    }
    if kind == ErrorKind::Auth {
        return Some(
            "check the AWS credentials and the region; an API key for Bedrock is usually kept in AWS_BEARER_TOKEN_BEDROCK"
                .to_owned(),
        );
    }
    rejection::advice(kind, &request.model)
}

/// Removes the parts of a key and the quoted request from a text.
fn redact(request: &ModelRequest, message: &str) -> String {
    let mut text = message.split(SIGNED).next().unwrap_or_default().trim_end().to_owned();
    if let Some(key) = request.key() {
        for part in key.expose().split(':').filter(|p| p.len() >= MIN_REDACTED) {
            text = Secret::from(part).redact(&text);
        }
    }
    text
}
