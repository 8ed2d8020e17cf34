//! What every request over HTTP has: an address, headers, and the caller's own wishes about both.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_core::{ErrorContext, ErrorKind, ModelConfig, ModelRequest, ProviderError, Secret};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// How this library names itself to servers.
const USER_AGENT: &str = concat!("looptree/", env!("CARGO_PKG_VERSION"));

/// The longest `prompt_cache_key`, in characters.
const MAX_CACHE_KEY: usize = 64;

/// Headers that belong to the transport and cannot be set by hand.
const OF_THE_TRANSPORT: &[HeaderName] =
    &[header::CONTENT_LENGTH, header::HOST, header::TRANSFER_ENCODING, header::CONNECTION];

/// The address of `path` (which begins with `/`) under the model's base, or under `default_base`. A base that already
/// ends with the path is taken as it is, and a query of the base is kept behind the path.
///
/// # Errors
/// When it is no `http` or `https` address, or holds a user name or password.
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
    // "https:" and a path is read as a host by the rules for web addresses: the key would go to "v1".
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

/// An address that was found good, and what it was made of.
struct Address {
    base: String,
    path: String,
    url: reqwest::Url,
}

/// The address that was found good last: a run asks for the same one again and again, and reading it takes as long as
/// writing a request.
fn last_address() -> MutexGuard<'static, Option<Address>> {
    static LAST: Mutex<Option<Address>> = Mutex::new(None);
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty buffer for the body of this request.
pub(crate) fn body_buffer(request: &ModelRequest) -> Vec<u8> {
    crate::body_buffer::buffer(room(request))
}

/// Room for the body of a request with this conversation, in bytes: a guess that is seldom too small. A body that grows
/// while it is written is copied each time.
fn room(request: &ModelRequest) -> usize {
    /// An estimated token is four bytes of text; quotes and line ends are two in JSON.
    const TOKEN: usize = 5;
    /// The names around a message, which are not counted as tokens.
    const MESSAGE: usize = 64;
    /// What stands before the conversation. Thousands of agents may write a first request at once, and the allocator has
    /// pieces of up to 1 KiB at hand.
    const HEAD: usize = 768;
    /// The most that is reserved by a guess.
    const MOST: usize = 32 << 20;
    let tokens = usize::try_from(request.history.tokens()).unwrap_or(usize::MAX);
    let messages = request.history.len().saturating_mul(MESSAGE);
    tokens.saturating_mul(TOKEN).saturating_add(messages).saturating_add(HEAD).min(MOST)
}

/// The headers of a request with a JSON body.
pub(crate) fn json_headers() -> HeaderMap {
    // Room for ours and the two that the client adds; more would be a map of twice the size.
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    headers
}

/// A header value that is shown nowhere.
///
/// # Errors
/// When the credential holds characters that no header may hold, a line end for example.
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

/// An error before anything was sent.
pub(crate) fn refuse(model: &ModelConfig, kind: ErrorKind, message: &str, advice: &str) -> ProviderError {
    let context = ErrorContext::new(message).with_target(&*model.provider, &*model.id).with_advice(advice);
    ProviderError::new(kind, context)
}

/// The error of a call without the key that the provider needs.
pub(crate) fn key_missing(model: &ModelConfig) -> ProviderError {
    let advice = match crate::keys::variable(&model.provider) {
        Some(variable) => format!("set the model's api_key; it is usually kept in {variable}"),
        None => String::from("set the model's api_key"),
    };
    let context =
        ErrorContext::new("no API key was given").with_target(&model.provider, &model.id).with_advice(advice);
    ProviderError::new(ErrorKind::Auth, context)
}

/// Whether the caller sets this header by hand.
pub(crate) fn sets_header(request: &ModelRequest, name: &str) -> bool {
    let both = request.headers.iter().chain(&request.model.headers);
    both.filter(|(_, value)| value.is_some()).any(|(key, _)| key.eq_ignore_ascii_case(name))
}

/// Whether the caller says something of one of these headers: its value, or that it is not to be sent.
pub(crate) fn names_header(request: &ModelRequest, names: &[&HeaderName]) -> bool {
    let mut said = request.model.headers.keys().chain(request.headers.keys());
    said.any(|key| names.iter().any(|name| key.eq_ignore_ascii_case(name.as_str())))
}

/// The name of the session, as far as OpenAI's servers take one as `prompt_cache_key`.
pub(crate) fn prompt_cache_key(request: &ModelRequest) -> Option<String> {
    let session = request.session_id.as_deref().filter(|s| !s.is_empty())?;
    Some(session.chars().take(MAX_CACHE_KEY).collect())
}

/// Puts the model's headers and then those of the call over the protocol's; `None` removes one (B-155).
///
/// # Errors
/// When a name or a value cannot be sent; the value is not shown.
pub(crate) fn apply_custom(headers: &mut HeaderMap, request: &ModelRequest) -> Result<(), ProviderError> {
    for (name, value) in request.model.headers.iter().chain(&request.headers) {
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
