//! Endpoint and credentials of a request.

#[cfg(test)]
mod tests;

use agent_core::{ErrorContext, ErrorKind, ModelConfig, ModelRequest, ProviderError};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::request;

/// The base address of the vendor.
const HOST: &str = "https://generativelanguage.googleapis.com";

/// The version of the API. `v1` lacks newer fields such as thinking and signatures.
const VERSION: &str = "/v1beta";

/// The header of the key. A key in the URL would appear in logs.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The method that streams the reply.
pub(crate) const METHOD: &str = ":streamGenerateContent";

/// Returns the URL. The configured base may end with `/`, with a version or with `/models`, or be the whole URL.
///
/// # Errors
/// Returns an error if `base_url` is not a web address, or the model's id contains characters that a URL cannot.
pub(super) fn endpoint(model: &ModelConfig) -> Result<reqwest::Url, ProviderError> {
    let base = model.base_url.as_deref().unwrap_or(HOST);
    let address = base.split('?').next().unwrap_or_default().trim().trim_end_matches('/');
    let id = segment(model, "model id", &model.id)?;
    let resource = if id.contains('/') { format!("/{id}") } else { format!("/models/{id}") };
    let last = address.rsplit('/').next().unwrap_or_default();
    let path = match last {
        "v1" | "v1beta" | "v1alpha" => format!("{resource}{METHOD}"),
        "models" => format!("/{}{METHOD}", resource.rsplit('/').next().unwrap_or_default()),
        _ => format!("{VERSION}{resource}{METHOD}"),
    };
    request::endpoint(model, HOST, &path).map(streamed)
}

/// Adds the query parameter for server-sent events. Without it the response is one JSON list.
pub(crate) fn streamed(mut url: reqwest::Url) -> reqwest::Url {
    if !url.query_pairs().any(|(name, _)| name == "alt") {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    url
}

/// Returns a name after checking that it can be part of an address.
///
/// # Errors
/// Returns an error if it is empty or contains a character that would change the address.
pub(crate) fn segment<'n>(model: &ModelConfig, what: &str, name: &'n str) -> Result<&'n str, ProviderError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | ':' | '/');
    let name = name.trim();
    let climbs = name.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    if climbs || !name.chars().all(fits) {
        let context = ErrorContext::new(format!("the {what} {name:?} cannot stand in an address"))
            .with_target(&model.provider, &model.id)
            .with_advice("letters, digits and - _ . @ : / can; look for blanks and other characters");
        return Err(ProviderError::new(ErrorKind::Other, context));
    }
    Ok(name)
}

/// Returns the protocol's headers. The transport then applies those of the model and of the call, which take precedence.
///
/// # Errors
/// Returns an error if there is no key, or it contains characters that are invalid in a header.
pub(super) fn headers(request: &ModelRequest) -> Result<HeaderMap, ProviderError> {
    let model = &*request.model;
    let mut headers = request::stream_headers();
    match request.key().filter(|k| !k.is_empty()) {
        Some(key) => {
            headers.insert(API_KEY, request::credential(model, "", key)?);
        }
        None if request::names_header(request, &[&API_KEY, &AUTHORIZATION]) => {}
        None => return Err(request::key_missing(model)),
    }
    Ok(headers)
}
