//! Errors of the API: an error response or an error within a stream.

#[cfg(test)]
mod tests;

use std::time::Duration;

use agent_core::provider::overflow::is_quota_text;
use agent_core::{ApiProtocol, ErrorContext, ErrorKind, ModelRequest, ProviderError};
use serde_json::Value;

use super::wire::{Detail, ErrorBody};
use crate::protocol::Rejection;
use crate::rejection::{self, VendorError};

/// Reasons in the details that are more specific than status and text.
const REASONS: &[(&str, ErrorKind)] = &[
    ("API_KEY_INVALID", ErrorKind::Auth),
    ("API_KEY_EXPIRED", ErrorKind::Auth),
    ("API_KEY_SERVICE_BLOCKED", ErrorKind::Auth),
    ("API_KEY_HTTP_REFERRER_BLOCKED", ErrorKind::Auth),
    ("API_KEY_IP_ADDRESS_BLOCKED", ErrorKind::Auth),
    ("ACCESS_TOKEN_EXPIRED", ErrorKind::Auth),
    ("ACCESS_TOKEN_SCOPE_INSUFFICIENT", ErrorKind::Auth),
    ("ACCESS_TOKEN_TYPE_UNSUPPORTED", ErrorKind::Auth),
    ("CREDENTIALS_MISSING", ErrorKind::Auth),
    ("IAM_PERMISSION_DENIED", ErrorKind::Auth),
    ("SERVICE_DISABLED", ErrorKind::Auth),
    ("BILLING_DISABLED", ErrorKind::Quota),
    ("RATE_LIMIT_EXCEEDED", ErrorKind::RateLimited),
];

/// The status of a call that was cancelled by the vendor.
const CANCELLED: u16 = 499;

/// Reads an error answer. The wait of a header and the request id are added by the transport.
pub(crate) fn rejected(request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
    match serde_json::from_slice::<Value>(rejection.body) {
        Ok(body) => match read(&body, Some(rejection.status)) {
            Some(error) => advised(error.map_context(|c| c.status = Some(rejection.status)), request),
            None => rejection::read(request, rejection),
        },
        Err(_) => rejection::read(request, rejection),
    }
}

/// Parses an error without a surrounding `error` member; `None` if the chunk is none.
pub(super) fn unwrapped(chunk: &str) -> Option<ProviderError> {
    serde_json::from_str(chunk).ok().and_then(|body| read(&body, None))
}

/// Parses an error instead of a chunk.
pub(crate) fn in_stream(body: &str) -> ProviderError {
    unwrapped(body).unwrap_or_else(|| {
        let context = ErrorContext::new("the stream reported an error and did not say which");
        ProviderError::new(ErrorKind::Network, context)
    })
}

fn read(body: &Value, status: Option<u16>) -> Option<ProviderError> {
    let vendor = VendorError::from_value(body)?;
    // An error may be the root, a member `error`, or an item of a list.
    let object = body.as_array().and_then(|list| list.first()).unwrap_or(body);
    let object = object.get("error").unwrap_or(object);
    let details = ErrorBody::deserialize_from(object).details;
    let status = status.or(vendor.status);
    let kind = kind_of(&vendor, status, &details);
    let mut context = ErrorContext::new(vendor.message);
    context.status = status;
    context.code = details.iter().find_map(|d| d.reason.clone()).or(vendor.code);
    context.retry_after = details.iter().find_map(|d| d.retry_delay.as_deref().and_then(seconds));
    Some(ProviderError::new(kind, context))
}

impl ErrorBody {
    fn deserialize_from(object: &Value) -> Self {
        serde::Deserialize::deserialize(object).unwrap_or_default()
    }
}

fn kind_of(vendor: &VendorError, status: Option<u16>, details: &[Detail]) -> ErrorKind {
    let limits = || {
        let violated = details.iter().flat_map(|d| &d.violations).filter_map(|v| v.quota_id.as_deref());
        violated.chain(details.iter().filter_map(|d| d.metadata.quota_limit.as_deref()))
    };
    if status == Some(429) {
        // The text is the same for a minute's limit and a day's; to wait helps against the first only.
        if limits().any(|limit| limit.contains("PerDay")) {
            return ErrorKind::Quota;
        }
        if limits().any(|limit| limit.contains("PerMinute"))
            || details.iter().any(|d| d.retry_delay.is_some())
        {
            return ErrorKind::RateLimited;
        }
    }
    let reason = details
        .iter()
        .filter_map(|d| d.reason.as_deref())
        .find_map(|reason| REASONS.iter().find(|(name, _)| *name == reason).map(|(_, kind)| *kind));
    match reason {
        Some(kind) => kind,
        None if status == Some(CANCELLED) => ErrorKind::Network,
        None if status == Some(400) && is_quota_text(&vendor.message) => ErrorKind::Quota,
        None => vendor.meaning(status),
    }
}

/// `38s`, `1.203608125s`.
fn seconds(text: &str) -> Option<Duration> {
    let number = text.trim().strip_suffix('s')?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(number).ok()
}

/// Returns whether an error has Google's form rather than that of the publisher of the model: its `error` has no `type`.
#[cfg(feature = "vertex")]
pub(crate) fn is_of_google(body: &[u8]) -> bool {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return false };
    let object = body.as_array().and_then(|list| list.first()).unwrap_or(&body);
    object
        .get("error")
        .is_some_and(|error| error.is_object() && !error.get("type").is_some_and(Value::is_string))
}

/// Adds advice to an error, according to its kind and the API.
pub(crate) fn advised(error: ProviderError, request: &ModelRequest) -> ProviderError {
    let kind = error.kind();
    let advice = match (request.model.api, kind) {
        (ApiProtocol::GoogleVertex | ApiProtocol::AnthropicVertex, ErrorKind::Auth) => Some(
            "check that the credential is valid, that it may use Vertex AI in this project \
             (role roles/aiplatform.user) and that the Vertex AI API is enabled there"
                .to_owned(),
        ),
        (ApiProtocol::GoogleVertex, ErrorKind::ModelNotFound) => Some(format!(
            "check the model id {:?}, and that the model is served in this region; many are in \"global\" only",
            request.model.id
        )),
        (ApiProtocol::AnthropicVertex, ErrorKind::ModelNotFound) => Some(format!(
            "check the model id {:?}, that the model is enabled in the Model Garden of this project, and that it is \
             served in this region",
            request.model.id
        )),
        _ => rejection::advice(kind, &request.model),
    };
    error.map_context(|context| context.advice = advice)
}
