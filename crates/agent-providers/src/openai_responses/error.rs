//! Errors of a reply: an error event, a failed response or an interrupted stream.

#[cfg(test)]
mod tests;

use agent_core::provider::error::classify_kind;
use agent_core::{ErrorContext, ErrorKind, ProviderError};
use serde_json::value::RawValue;

use crate::rejection::VendorError;
use crate::transport::retry_after;

/// Codes of errors that a retry may resolve. The other codes that the vendor documents concern the request.
const PASSING: &[&str] = &[
    "server_error",
    "internal_error",
    "internal_server_error",
    "internalservererror",
    "api_error",
    "upstream_error",
    "processing_error",
    "timeout",
    "timeout_error",
    "vector_store_timeout",
    "overloaded",
    "overloaded_error",
    "server_overloaded",
    "server_is_overloaded",
    "engine_overloaded",
    "service_unavailable",
    "slow_down",
    "unknown_error",
];

/// The maximum number of characters that are quoted of an error of an unknown form.
const MAX_QUOTED: usize = 500;

/// Parses an error object inside of a stream or instead of one.
pub(super) fn event(json: &str) -> ProviderError {
    let vendor = VendorError::from_body(json.as_bytes()).unwrap_or_else(|| VendorError {
        message: json.chars().take(MAX_QUOTED).collect(),
        ..VendorError::default()
    });
    let code = vendor.code.as_deref().map(str::to_lowercase);
    // Azure's codes may be statuses.
    let status = code.as_deref().and_then(|c| c.parse::<u16>().ok()).filter(|s| (400..600).contains(s));
    let kind = status.map(|status| classify_kind(status, &vendor.message));
    let passes = code.is_none_or(|code| PASSING.contains(&code.as_str()));
    let wait = retry_after::in_text(&vendor.message);
    let error = vendor.in_stream().map_context(|context| context.retry_after = wait);
    match (error, kind) {
        (ProviderError::Network(context), Some(kind)) => ProviderError::new(kind, *context),
        (ProviderError::Network(context), None) if !passes => ProviderError::Api(context),
        (error, _) => error,
    }
}

/// Reads the error of a failed response.
pub(super) fn failed(error: Option<&RawValue>) -> ProviderError {
    match error {
        Some(error) => event(error.get()),
        None => fail(ErrorKind::Network, "the reply failed and the server did not say why", Some("failed")),
    }
}

/// Returns an error of this kind with the vendor's code.
pub(super) fn fail(kind: ErrorKind, message: &str, code: Option<&str>) -> ProviderError {
    let mut context = ErrorContext::new(message);
    context.code = code.map(str::to_owned);
    ProviderError::new(kind, context)
}

/// Returns the error of a stream that ended before its terminal event.
pub(super) fn cut() -> ProviderError {
    fail(ErrorKind::Network, "the stream ended before response.completed: the reply is incomplete", None)
}

/// Something arrived that is no event.
pub(super) fn unreadable(cause: serde_json::Error) -> ProviderError {
    fail(ErrorKind::Network, "the stream holds an event that cannot be read", None)
        .map_context(|context| context.source = Some(cause.into()))
}

/// Returns the error of a JSON body that is not a reply.
pub(super) fn no_output() -> ProviderError {
    fail(ErrorKind::Api, "the answer has no `output` and is none of the Responses API", None).map_context(
        |context| context.advice = Some("check base_url and the protocol of this model".to_owned()),
    )
}
