//! Endpoint and credentials of a request.

#[cfg(test)]
mod tests;

use agent_core::{ErrorKind, ModelConfig, ModelRequest, ProviderError};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::request::{self, refuse};

/// An example address for the advice in errors.
const EXAMPLE: &str = "https://RESOURCE.openai.azure.com/openai/v1";

/// The default API version in the address of a deployment.
const API_VERSION: &str = "api-version=2025-01-01-preview";

const API_KEY: HeaderName = HeaderName::from_static("api-key");

/// Returns the URL of the endpoint, which depends on the form of the configured base:
///
/// | `base_url` | address of the request |
/// |---|---|
/// | a host alone | `/openai/v1/responses` |
/// | `.../openai`, without a version | `.../openai/v1/responses` |
/// | `.../openai?api-version=V` | `.../openai/responses?api-version=V` |
/// | `.../openai/deployments/NAME` | `.../openai/deployments/NAME/responses?api-version=V` |
/// | `.../openai/deployments` | the same, with the model's id as the name |
/// | any other, `.../openai/v1` among them | that and `/responses` |
///
/// # Errors
/// Returns an error if there is no base, or it is not a web address.
pub(super) fn endpoint(model: &ModelConfig) -> Result<reqwest::Url, ProviderError> {
    let Some(base) = model.base_url.as_deref() else {
        let message = "an Azure deployment has no address of its own";
        let advice = format!("set base_url to an address such as {EXAMPLE}");
        return Err(refuse(model, ErrorKind::Other, message, &advice));
    };
    let (address, query) = base.trim().split_once('?').unwrap_or((base.trim(), ""));
    let address = address.trim_end_matches('/');
    let host_alone = address.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
    let (mut address, mut query) = (address.to_owned(), query.to_owned());
    let by_deployment = address.contains("/openai/deployments");
    if host_alone {
        address.push_str("/openai/v1");
    } else if address.ends_with("/openai") && !query.contains("api-version=") {
        address.push_str("/v1");
    } else if by_deployment && address.ends_with("/deployments") {
        address.push('/');
        address.push_str(&model.id);
    }
    if by_deployment && !query.contains("api-version=") {
        let and = if query.is_empty() { "" } else { "&" };
        query = format!("{query}{and}{API_VERSION}");
    }
    if !query.is_empty() {
        address.push('?');
        address.push_str(&query);
    }
    let mut model = model.clone();
    model.base_url = Some(address);
    request::endpoint(&model, EXAMPLE, "/responses")
}

/// Returns the protocol's headers. The transport then applies those of the model and of the call, which take
/// precedence. A token of Entra, which has three parts, is sent as a bearer token.
///
/// # Errors
/// Returns an error if there is no key, or it contains characters that are invalid in a header.
pub(super) fn headers(request: &ModelRequest) -> Result<HeaderMap, ProviderError> {
    let model = &*request.model;
    let mut headers = request::stream_headers();
    match request.key().filter(|k| !k.is_empty()) {
        Some(key) if is_token(key.expose()) => {
            headers.insert(AUTHORIZATION, request::credential(model, "Bearer ", key)?);
        }
        // The caller has set the other header.
        Some(_) if request::sets_header(request, AUTHORIZATION.as_str()) => {}
        Some(key) => {
            headers.insert(API_KEY, request::credential(model, "", key)?);
        }
        None if request::sets_header(request, AUTHORIZATION.as_str())
            || request::sets_header(request, API_KEY.as_str()) => {}
        None => return Err(request::key_missing(model)),
    }
    Ok(headers)
}

/// Returns whether a credential is a signed token: three parts of base64, the first of which encodes an object.
fn is_token(credential: &str) -> bool {
    let credential = credential.trim();
    credential.starts_with("eyJ") && credential.split('.').count() == 3
}
