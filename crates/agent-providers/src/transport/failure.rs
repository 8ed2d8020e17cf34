//! Errors of the connection: no connection, timeouts, an interrupted stream, a response of the wrong kind. Their texts
//! omit the path and the query of addresses, which may contain credentials.

use std::error::Error;
use std::time::Duration;

use agent_core::{ErrorContext, ErrorKind, ProviderError};
use http::HeaderMap;
use reqwest::Url;

/// The maximum number of characters of external text that an error quotes.
const MAX_QUOTED: usize = 120;

/// Returns the error for a request that could not be sent or received no response head.
pub(super) fn sending(error: reqwest::Error, url: &Url) -> ProviderError {
    let error = error.without_url();
    let host = origin(url);
    let (kind, message, advice) = if error.is_builder() {
        (ErrorKind::Other, format!("the request to {host} cannot be made"), None)
    } else if error.is_connect() && error.is_timeout() {
        (ErrorKind::Network, format!("no connection to {host} within the time limit"), Some(is_up(&host)))
    } else if error.is_connect() {
        (ErrorKind::Network, format!("no connection to {host}{}", because(&error)), Some(is_up(&host)))
    } else {
        (
            ErrorKind::Network,
            format!("the connection to {host} broke before an answer came{}", because(&error)),
            None,
        )
    };
    let mut context = ErrorContext::new(message).with_source(error);
    context.advice = advice;
    ProviderError::new(kind, context)
}

/// Returns the error for a response head that did not arrive in time.
pub(super) fn no_head(url: &Url, limit: Duration) -> ProviderError {
    let context = ErrorContext::new(format!("{} sent no answer within {}", origin(url), seconds(limit)))
        .with_advice("the server may be overloaded; a longer header_timeout in TransportConfig waits longer");
    ProviderError::new(ErrorKind::Network, context)
}

/// Returns the error for a stream that exceeded the idle timeout.
pub(super) fn silent(limit: Duration) -> ProviderError {
    let context = ErrorContext::new(format!("the answer stopped: nothing came for {}", seconds(limit)))
        .with_advice("a longer idle_timeout in TransportConfig waits longer");
    ProviderError::new(ErrorKind::Network, context)
}

/// Returns the error for a stream that brings nothing but signs of life.
pub(super) fn empty(limit: Duration) -> ProviderError {
    let message = format!("the answer has no content: only keep-alive messages came for {}", seconds(limit));
    let context =
        ErrorContext::new(message).with_advice("a longer content_timeout in TransportConfig waits longer");
    ProviderError::new(ErrorKind::Network, context)
}

/// Returns the error for a stream that brings too many bytes without content.
pub(super) fn flood(limit: usize) -> ProviderError {
    let message = format!("the answer has no content: more than {limit} bytes came without any");
    ProviderError::new(ErrorKind::Network, ErrorContext::new(message))
}

/// Returns the error for an interrupted stream.
pub(super) fn broken(error: reqwest::Error) -> ProviderError {
    let message = format!("the connection broke in the middle of the answer{}", because(&error));
    ProviderError::new(ErrorKind::Network, ErrorContext::new(message).with_source(error))
}

/// Returns the error for a body that ended in the middle of a frame.
pub(super) fn torn(cause: ProviderError) -> ProviderError {
    let context = ErrorContext::new("the answer broke off in the middle of a piece of it").with_source(cause);
    ProviderError::new(ErrorKind::Network, context)
}

/// Returns the error for a line, an event or a body that exceeds the size limit.
pub(super) fn too_long(limit: usize) -> ProviderError {
    let context = ErrorContext::new(format!("a piece of the answer is longer than {limit} bytes"))
        .with_advice("a larger max_frame_bytes in TransportConfig accepts it");
    ProviderError::new(ErrorKind::Other, context)
}

/// Returns the error for a redirect.
pub(super) fn redirected(status: u16, headers: &HeaderMap, url: &Url) -> ProviderError {
    let target = headers
        .get(http::header::LOCATION)
        .and_then(|v| v.to_str().ok())
        .and_then(|location| url.join(location).ok())
        .map_or_else(
            || String::from("another address"),
            |mut to| {
                to.set_query(None);
                to.set_fragment(None);
                let _ = (to.set_username(""), to.set_password(None));
                to.to_string()
            },
        );
    let context = ErrorContext::new(format!("the server redirects to {target}"))
        .with_status(status)
        .with_advice("redirects are not followed, so that the key stays with its host; set base_url to the new address");
    ProviderError::new(ErrorKind::Api, context)
}

/// Returns the error for a successful status with an HTML page.
pub(super) fn web_page(status: u16) -> ProviderError {
    let context = ErrorContext::new("the answer is an HTML page, not the stream of a model")
        .with_status(status)
        .with_advice("check that base_url is the address of an API, not of a web site");
    ProviderError::new(ErrorKind::Api, context)
}

/// Returns the error for a successful status with an unexpected content type.
pub(super) fn wrong_type(status: u16, content_type: Option<&str>) -> ProviderError {
    let named = match content_type {
        Some(t) => format!("the answer is of the type {:?}, not the stream of a model", cut(t)),
        None => String::from("the answer names no content type and is not the stream of a model"),
    };
    let context = ErrorContext::new(named)
        .with_status(status)
        .with_advice("check base_url and the protocol of this model");
    ProviderError::new(ErrorKind::Api, context)
}

/// Returns the scheme, host and port of a URL.
fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{}://{host}:{port}", url.scheme()),
        None => format!("{}://{host}", url.scheme()),
    }
}

fn is_up(host: &str) -> String {
    format!("is the server running at {host}, and is base_url right?")
}

/// Returns the innermost cause, which is more specific than "error sending request".
fn because(error: &reqwest::Error) -> String {
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(next) = cause.and_then(Error::source) {
        cause = Some(next);
    }
    cause.map_or_else(String::new, |c| format!(": {}", cut(&c.to_string())))
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}

/// Returns the error for a body that is no JSON.
pub(super) fn unreadable(error: &serde_json::Error) -> ProviderError {
    let context = ErrorContext::new(format!("the answer is no JSON: {error}"))
        .with_advice("check that the address is that of an API");
    ProviderError::new(ErrorKind::Other, context)
}
