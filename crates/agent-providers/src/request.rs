//! The parts that all HTTP requests share: address, headers, credentials and the caller's changes to them.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
use agent_core::ThinkingLevel;
use agent_core::trace::TraceContext;
use agent_core::{ErrorContext, ErrorKind, ModelConfig, ModelRequest, ProviderError, Secret};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The `user-agent` header of this library.
const USER_AGENT: &str = concat!("looptree/", env!("CARGO_PKG_VERSION"));

/// The maximum length of a `prompt_cache_key` in characters.
const MAX_CACHE_KEY: usize = 64;

/// Headers that the transport sets and a caller cannot change.
const OF_THE_TRANSPORT: &[HeaderName] =
    &[header::CONTENT_LENGTH, header::HOST, header::TRANSFER_ENCODING, header::CONNECTION];

/// Returns the address of `path` (which begins with `/`) relative to the model's base address or `default_base`. A base that
/// already ends with the path is used unchanged, and a query of the base is retained after the path.
///
/// # Errors
/// Returns an error if the address is not an `http` or `https` URL or contains a user name or a password.
pub(crate) fn endpoint(
    model: &ModelConfig,
    default_base: &str,
    path: &str,
) -> Result<reqwest::Url, ProviderError> {
    let base = model.base_url.as_deref().map_or(default_base, str::trim);
    if let Some(known) = last_address().as_ref().filter(|known| known.base == base && known.path == path) {
        return Ok(known.url.clone());
    }
    let (address, query) = base.split_once('?').map_or((base, None), |(a, q)| (a, Some(q)));
    let address = address.trim_end_matches('/');
    let mut url = String::with_capacity(base.len() + path.len());
    url.push_str(address);
    if !address.ends_with(path) {
        url.push_str(path);
    }
    if let Some(query) = query {
        url.push('?');
        url.push_str(query);
    }
    let wrong = |what: &str| {
        let context = ErrorContext::new(format!("the base_url of this model {what}"))
            .with_target(&model.provider, &model.id)
            .with_advice(format!("set base_url to an address such as {default_base}"));
        Err(ProviderError::new(ErrorKind::Other, context))
    };
    // The URL parser reads "https:/v1" as the host "v1", which would receive the key.
    let names_a_host = address.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/'));
    match reqwest::Url::parse(&url) {
        Err(_) => wrong("is no web address"),
        Ok(_) if !names_a_host => wrong("is not of the form http://host or https://host"),
        Ok(u) if !matches!(u.scheme(), "http" | "https") || u.host_str().is_none_or(str::is_empty) => {
            wrong("is not of the form http://host or https://host")
        }
        Ok(u) if !u.username().is_empty() || u.password().is_some() => {
            wrong("holds a user name or password; give the credential as the API key or as a header")
        }
        Ok(u) => {
            *last_address() = Some(Address { base: base.to_owned(), path: path.to_owned(), url: u.clone() });
            Ok(u)
        }
    }
}

/// Returns the host of the model's base address, or `None` if the model has none or it does not begin with `https://`.
#[cfg(any(feature = "anthropic", feature = "openai-chat", feature = "openai-responses"))]
pub(crate) fn https_host(model: &ModelConfig) -> Option<&str> {
    let rest = model.base_url.as_deref()?.trim().strip_prefix("https://")?;
    rest.split(['/', ':', '?']).next()
}

/// A valid address and the parts that it was built from.
struct Address {
    base: String,
    path: String,
    url: reqwest::Url,
}

/// The address that was built last. A run uses the same address for all its requests, and parsing it takes as long as
/// encoding a request.
fn last_address() -> MutexGuard<'static, Option<Address>> {
    static LAST: Mutex<Option<Address>> = Mutex::new(None);
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns an empty buffer for the body of this request.
pub(crate) fn body_buffer(request: &ModelRequest) -> Vec<u8> {
    crate::body_buffer::buffer(room(request))
}

/// Estimates the size of the body of a request with this conversation, in bytes. The estimate is seldom too small, because a
/// buffer that grows is copied.
fn room(request: &ModelRequest) -> usize {
    /// An estimated token has four bytes of text. Quotes and line ends take two bytes in JSON.
    const TOKEN: usize = 5;
    /// The size of the member names of a message, which are not counted as tokens.
    const MESSAGE: usize = 64;
    /// The size of the members before the conversation. It is small, because thousands of agents may encode a first request
    /// at once, and the allocator is fast for up to 1 KiB.
    const HEAD: usize = 768;
    /// The maximum estimate.
    const MOST: usize = 32 << 20;
    let tokens = usize::try_from(request.history.tokens()).unwrap_or(usize::MAX);
    let messages = request.history.len().saturating_mul(MESSAGE);
    tokens.saturating_mul(TOKEN).saturating_add(messages).saturating_add(HEAD).min(MOST)
}

/// Returns the headers of a request with a JSON body.
pub(crate) fn json_headers() -> HeaderMap {
    // Capacity for these headers and the two that the client adds. More would double the size of the map.
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers
}

/// Returns the headers of a request with a JSON body whose response is a stream of server-sent events.
pub(crate) fn stream_headers() -> HeaderMap {
    let mut headers = json_headers();
    headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    headers
}

/// Returns a header value with a credential, marked as sensitive.
///
/// # Errors
/// Returns an error if the credential contains characters that are invalid in a header, such as a line end.
pub(crate) fn credential(
    model: &ModelConfig,
    prefix: &str,
    secret: &Secret,
) -> Result<HeaderValue, ProviderError> {
    let secret = secret.expose().trim();
    let mut text = String::with_capacity(prefix.len() + secret.len());
    text.push_str(prefix);
    text.push_str(secret);
    let mut value = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)).map_err(|_| {
        let context = ErrorContext::new("the API key holds characters that cannot be sent in a header")
            .with_target(&model.provider, &model.id)
            .with_advice("look for a line break or a space inside the key");
        ProviderError::new(ErrorKind::Auth, context)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the output limit of a request: that of the call, otherwise that of the model. `None` if both are unknown or 0; the
/// request then has no limit.
pub(crate) fn output_limit(request: &ModelRequest) -> Option<u32> {
    request.options.max_tokens.or(request.model.max_tokens).filter(|limit| *limit > 0)
}

/// Returns an error for a request that was not sent.
pub(crate) fn refuse(model: &ModelConfig, kind: ErrorKind, message: &str, advice: &str) -> ProviderError {
    let context = ErrorContext::new(message).with_target(&*model.provider, &*model.id).with_advice(advice);
    ProviderError::new(kind, context)
}

/// Returns an error for a request that was not sent because of one of its settings. Its source is `error`.
pub(crate) fn refuse_setting<E: std::error::Error + Send + Sync + 'static>(
    model: &ModelConfig,
    error: E,
    advice: &str,
) -> ProviderError {
    let context = ErrorContext::new(error.to_string())
        .with_target(&*model.provider, &*model.id)
        .with_advice(advice)
        .with_source(error);
    ProviderError::new(ErrorKind::Other, context)
}

/// Returns the error of a call without the key that the provider needs.
pub(crate) fn key_missing(model: &ModelConfig) -> ProviderError {
    let advice = match agent_core::model::key_variable(&model.provider) {
        Some(variable) => format!("set the model's api_key; it is usually kept in {variable}"),
        None => String::from("set the model's api_key"),
    };
    let context =
        ErrorContext::new("no API key was given").with_target(&model.provider, &model.id).with_advice(advice);
    ProviderError::new(ErrorKind::Auth, context)
}

/// Returns whether the caller sets this header.
pub(crate) fn sets_header(request: &ModelRequest, name: &str) -> bool {
    let both = request.options.headers.iter().chain(&request.model.headers);
    both.filter(|(_, value)| value.is_some()).any(|(key, _)| key.eq_ignore_ascii_case(name))
}

/// Returns whether the caller sets or removes one of these headers.
pub(crate) fn names_header(request: &ModelRequest, names: &[&HeaderName]) -> bool {
    let mut said = request.model.headers.keys().chain(request.options.headers.keys());
    said.any(|key| names.iter().any(|name| key.eq_ignore_ascii_case(name.as_str())))
}

/// Returns the session id, limited to the length that OpenAI's servers accept as `prompt_cache_key`.
pub(crate) fn prompt_cache_key(request: &ModelRequest) -> Option<String> {
    let session = request.session_id.as_deref().filter(|s| !s.is_empty())?;
    Some(session.chars().take(MAX_CACHE_KEY).collect())
}

/// Applies the model's headers and then those of the call to the protocol's headers; `None` removes a header.
///
/// # Errors
/// Returns an error if a name or a value is invalid. The error does not show the value.
pub(crate) fn apply_custom(headers: &mut HeaderMap, request: &ModelRequest) -> Result<(), ProviderError> {
    for (name, value) in request.model.headers.iter().chain(&request.options.headers) {
        let wrong = |what: &str| {
            let context = ErrorContext::new(format!("the header {name:?} {what}"))
                .with_target(&request.model.provider, &request.model.id);
            ProviderError::new(ErrorKind::Other, context)
        };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("has no valid name"))?;
        if OF_THE_TRANSPORT.contains(&key) {
            return Err(wrong("belongs to the transport and cannot be set"));
        }
        match value {
            None => {
                headers.remove(&key);
            }
            Some(text) => {
                let mut value =
                    HeaderValue::from_str(text).map_err(|_| wrong("has a value that cannot be sent"))?;
                value.set_sensitive(true);
                headers.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Adds the headers of the W3C recommendation *Trace Context*. Headers of the caller replace them.
pub(crate) fn apply_trace(headers: &mut HeaderMap, trace: &TraceContext) {
    let values = [("traceparent", Some(trace.traceparent())), ("tracestate", trace.tracestate())];
    for (name, value) in values {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// Returns the name that the OpenAI protocols have for a thinking level. `minimal`, `xhigh` and `max` are sent only to models
/// that list these levels.
#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
pub(crate) fn effort(model: &ModelConfig, level: ThinkingLevel) -> &'static str {
    let has = |level: ThinkingLevel| model.thinking_levels.contains(&level);
    match level {
        ThinkingLevel::Minimal if has(ThinkingLevel::Minimal) => "minimal",
        ThinkingLevel::Medium => "medium",
        ThinkingLevel::Max if has(ThinkingLevel::Max) => "max",
        ThinkingLevel::XHigh | ThinkingLevel::Max if has(ThinkingLevel::XHigh) => "xhigh",
        ThinkingLevel::High | ThinkingLevel::XHigh | ThinkingLevel::Max => "high",
        _ => "low",
    }
}
