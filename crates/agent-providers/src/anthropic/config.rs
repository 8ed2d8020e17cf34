//! Endpoint and headers of a request, from the model's configuration.

#[cfg(test)]
mod tests;

use agent_core::{AnthropicAuth, ApiProtocol, ModelConfig, ModelRequest, ProviderError};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{encode, server_tools, version};
use crate::catalogue;
use crate::claude::changes::Change;
use crate::request;

/// The base address of the vendor.
const HOST: &str = "https://api.anthropic.com";

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
const ANTHROPIC_BETA: HeaderName = HeaderName::from_static("anthropic-beta");

/// The beta that a request must name to choose how the API treats thinking whose preceding messages have changed.
const BINDING_CONTROLS: &str = "thinking-binding-controls-2026-08-01";

/// The beta that a request must name to define and remove tools within the conversation.
const INLINE_TOOLS: &str = "inline-tools-2026-09-15";

/// The additional headers of [`AnthropicAuth::OAuthClient`]. They are sent only if the caller selects this
/// authentication.
const OAUTH_CLIENT: &[(&str, &str)] = &[
    ("anthropic-beta", "claude-code-20250219,oauth-2025-04-20,fine-grained-tool-streaming-2025-05-14"),
    ("x-app", "cli"),
    ("anthropic-dangerous-direct-browser-access", "true"),
    ("user-agent", "claude-cli/2.1.2"),
];

/// Returns the URL of the Messages endpoint. The configured base may end with `/`, `/v1` or the whole path.
///
/// # Errors
/// Returns an error if the base is not a web address.
pub(super) fn endpoint(model: &ModelConfig) -> Result<reqwest::Url, ProviderError> {
    let base = model.base_url.as_deref().unwrap_or(HOST);
    let address = base.split('?').next().unwrap_or_default().trim().trim_end_matches('/');
    let path = if address.ends_with("/v1") { "/messages" } else { "/v1/messages" };
    request::endpoint(model, HOST, path)
}

/// Returns whether requests go to the vendor's own models rather than to a compatible server.
pub(super) fn is_vendor(model: &ModelConfig) -> bool {
    is_on_vertex(model) || is_first_party(model)
}

/// Returns whether requests go to the vendor's own servers.
pub(super) fn is_first_party(model: &ModelConfig) -> bool {
    let own = model.base_url.is_none() || request::https_host(model) == Some("api.anthropic.com");
    own && !is_on_vertex(model)
}

fn is_on_vertex(model: &ModelConfig) -> bool {
    model.api == ApiProtocol::AnthropicVertex
}

/// Returns the protocol's headers. The transport then applies those of the model and of the call, which take precedence.
///
/// # Errors
/// Returns an error if there is no key, or it contains characters that are invalid in a header.
pub(super) fn headers(request: &ModelRequest) -> Result<HeaderMap, ProviderError> {
    let model = &*request.model;
    let mut headers = request::stream_headers();
    headers.insert(ANTHROPIC_VERSION, version::header(model)?);
    match (request.key().filter(|k| !k.is_empty()), model.anthropic_auth) {
        (Some(key), AnthropicAuth::Bearer | AnthropicAuth::OAuthClient) => {
            headers.insert(AUTHORIZATION, request::credential(model, "Bearer ", key)?);
        }
        (Some(key), _) => {
            headers.insert(API_KEY, request::credential(model, "", key)?);
        }
        (None, _) if request::names_header(request, &[&API_KEY, &AUTHORIZATION]) => {}
        (None, _) => return Err(request::key_missing(model)),
    }
    if model.anthropic_auth == AnthropicAuth::OAuthClient {
        for &(name, value) in OAUTH_CLIENT {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }
    if controls_binding(request) {
        headers.append(ANTHROPIC_BETA, HeaderValue::from_static(BINDING_CONTROLS));
    }
    server_tools::add_betas(&mut headers, request);
    for beta in crate::vendor_context::betas(request) {
        headers.append(ANTHROPIC_BETA, HeaderValue::from_static(beta));
    }
    if encode::changed(request).is_some_and(|changed| changed.changes.iter().any(Change::has_tools)) {
        headers.append(ANTHROPIC_BETA, HeaderValue::from_static(INLINE_TOOLS));
    }
    Ok(headers)
}

/// Returns whether a request lets the API drop thinking whose preceding messages have changed. Otherwise a model that
/// binds its thinking would reject every request after a compaction. If the caller sets the beta header, only its value
/// decides. Vertex AI may reject a beta that it does not know, so there the request needs that header.
pub(super) fn controls_binding(request: &ModelRequest) -> bool {
    let model = &request.model;
    let mut by_hand = request.model.headers.iter().chain(&request.options.headers);
    let by_hand = by_hand.rfind(|(name, _)| name.eq_ignore_ascii_case(ANTHROPIC_BETA.as_str()));
    let named = match by_hand {
        Some((_, value)) => value.as_ref().is_some_and(|v| v.contains(BINDING_CONTROLS)),
        None => !is_on_vertex(model),
    };
    named && is_vendor(model) && catalogue::find(&model.provider, &model.id).is_some_and(|f| f.thinking_bound)
}
