//! Endpoint and headers of a request, from the model's configuration.

#[cfg(test)]
mod tests;

use agent_core::{ApiProtocol, ErrorKind, ModelConfig, ModelRequest, ProviderError};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::request;

/// The header in which some compatible servers expect the key.
const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// The base address of the vendor.
const HOST: &str = "https://api.openai.com/v1";

/// The base addresses of other vendors with this protocol, by provider name.
const OTHERS: &[(&str, &str)] = &[
    ("deepseek", "https://api.deepseek.com/v1"),
    ("groq", "https://api.groq.com/openai/v1"),
    ("openrouter", "https://openrouter.ai/api/v1"),
    ("xai", "https://api.x.ai/v1"),
];

/// Returns the URL of the endpoint. The configured base may end with `/` or with the whole path.
///
/// # Errors
/// Returns an error if the base is not a web address, or no base is known for the provider.
pub(super) fn endpoint(model: &ModelConfig) -> Result<reqwest::Url, ProviderError> {
    let known = OTHERS.iter().find(|(name, _)| *name == model.provider).map(|(_, base)| *base);
    let base = known.or_else(|| (model.provider == "openai").then_some(HOST));
    if base.is_none() && model.base_url.is_none() {
        let message = format!("the address of the provider {:?} is not known", model.provider);
        return Err(request::refuse(model, ErrorKind::Other, &message, "set the model's base_url"));
    }
    request::endpoint(model, base.unwrap_or(HOST), "/responses")
}

/// The place of the system prompt in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemPrompt {
    /// In the member `instructions`.
    Instructions,
    /// As the first item of the input, because xAI rejects instructions.
    Input,
}

/// Returns the place of the system prompt for the server of this model.
pub(super) fn system_prompt(model: &ModelConfig) -> SystemPrompt {
    if model.provider == "xai" || request::https_host(model) == Some("api.x.ai") {
        SystemPrompt::Input
    } else {
        SystemPrompt::Instructions
    }
}

/// Returns whether requests go to the vendor's own models, directly or on Azure, rather than to a compatible server.
pub(super) fn is_vendor(model: &ModelConfig) -> bool {
    model.api == ApiProtocol::AzureOpenAiResponses
        || model.provider == "openai"
        || request::https_host(model) == Some("api.openai.com")
}

/// Returns whether the server answers several requests over one connection at the same time, each marked with its
/// `stream_id`.
#[cfg(feature = "openai-responses-ws")]
pub(super) fn has_lanes(model: &ModelConfig) -> bool {
    is_vendor(model) && model.api != ApiProtocol::AzureOpenAiResponses
}

/// Returns the protocol's headers. The transport then applies those of the model and of the call, which take precedence.
///
/// # Errors
/// Returns an error if a required key is missing, or contains characters that are invalid in a header.
pub(super) fn headers(request: &ModelRequest) -> Result<HeaderMap, ProviderError> {
    let model = &*request.model;
    let mut headers = request::stream_headers();
    match request.key().filter(|k| !k.is_empty()) {
        Some(key) => {
            headers.insert(AUTHORIZATION, request::credential(model, "Bearer ", key)?);
        }
        None if model.base_url.is_some() && agent_core::model::key_variable(&model.provider).is_none() => {}
        None if request::names_header(request, &[&AUTHORIZATION, &API_KEY]) => {}
        None => return Err(request::key_missing(model)),
    }
    Ok(headers)
}
