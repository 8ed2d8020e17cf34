//! Endpoint, region and credentials of a request, from the model's configuration.

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use agent_core::{ErrorContext, ErrorKind, ModelConfig, ModelRequest, ProviderError, Secret};
use aws_sdk_bedrockruntime::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use futures_util::FutureExt as _;
use http::header::{ACCEPT, AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::source::Source;
use crate::request::{self, refuse};

/// The region in a signature for an address without a region, such as a gateway, which signs the request again.
const REGION_OF_A_GATEWAY: &str = "us-east-1";

/// The prefix of the names of the vendor's hosts.
const HOST: &str = "bedrock-runtime";

/// The advice in errors about missing credentials.
const HOW_TO: &str = "set the model's api_key to an API key for Bedrock, usually kept in AWS_BEARER_TOKEN_BEDROCK, or to \
    ACCESS_KEY_ID:SECRET_ACCESS_KEY or ACCESS_KEY_ID:SECRET_ACCESS_KEY:SESSION_TOKEN";

/// The credentials of a request.
#[derive(Debug, Clone)]
pub(super) enum Auth {
    /// An API key, sent as a bearer token.
    Bearer(Secret),
    /// An AWS key, by which the request is signed.
    Keys {
        /// The id of the key.
        id: Secret,
        /// The secret that signs the request.
        secret: Secret,
        /// The session token of a temporary key.
        session: Option<Secret>,
    },
    /// The caller's own headers contain the credentials, or state that there are none.
    Headers,
    /// A source that returns credentials when they are needed.
    Source(Source),
}

/// Returns the credentials of a request: the key of the call or the model, otherwise those of the provider.
///
/// # Errors
/// Returns an error if there are no credentials, or the key has no known form.
pub(super) fn auth(request: &ModelRequest, source: Option<&Source>) -> Result<Auth, ProviderError> {
    let model = &*request.model;
    let mut by_hand = request.model.headers.keys().chain(request.options.headers.keys());
    if by_hand.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str())) {
        return Ok(Auth::Headers);
    }
    match (request.key().filter(|k| !k.is_empty()), source) {
        (Some(key), _) => parse(key).ok_or_else(|| {
            let message = "the key of this model is neither an API key for Bedrock nor a whole AWS key";
            refuse(model, ErrorKind::Auth, message, HOW_TO)
        }),
        (None, Some(source)) => Ok(Auth::Source(source.clone())),
        (None, None) => Err(refuse(model, ErrorKind::Auth, "no API key was given", HOW_TO)),
    }
}

/// Parses a key. An API key contains no colon; an AWS key has two or three parts separated by colons.
fn parse(key: &Secret) -> Option<Auth> {
    let text = key.expose().trim();
    let parts: Vec<&str> = text.split(':').collect();
    let sendable = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic());
    if !parts.iter().all(sendable) {
        return None;
    }
    match parts.as_slice() {
        // This is the id of an AWS key without its secret.
        [id] if is_key_id(id) => None,
        [key] => Some(Auth::Bearer(Secret::new(*key))),
        [id, secret] => {
            Some(Auth::Keys { id: Secret::new(*id), secret: Secret::new(*secret), session: None })
        }
        [id, secret, session] => Some(Auth::Keys {
            id: Secret::new(*id),
            secret: Secret::new(*secret),
            session: Some(Secret::new(*session)),
        }),
        _ => None,
    }
}

/// Returns whether a text is the id of an AWS key: `AKIA` or `ASIA` and 16 further capitals and digits.
fn is_key_id(text: &str) -> bool {
    let capitals = text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    (text.starts_with("AKIA") || text.starts_with("ASIA")) && text.len() == 20 && capitals
}

/// Returns the region for the signature: that of the model, of the address, or of the source.
pub(super) fn region(model: &ModelConfig, source: Option<&Source>) -> Option<String> {
    let given = model.region.as_deref().map(str::trim).filter(|r| !r.is_empty());
    let of_address = || model.base_url.as_deref().and_then(region_of);
    let region = given.map(str::to_owned).or_else(of_address);
    let region = region.or_else(|| source.and_then(Source::region));
    region.or_else(|| model.base_url.is_some().then(|| REGION_OF_A_GATEWAY.to_owned()))
}

/// Returns the region in an address of the vendor.
fn region_of(url: &str) -> Option<String> {
    let host = url.split_once("://")?.1.split(['/', ':', '?']).next()?;
    let mut parts = host.split('.').skip_while(|part| !part.starts_with(HOST)).skip(1);
    let region = parts.next()?;
    (parts.next() == Some("amazonaws") || host.ends_with(".api.aws")).then(|| region.to_owned())
}

/// Returns the URL of the model. The default base is the SDK's endpoint for the region.
///
/// # Errors
/// Returns an error if there is neither a base address nor a region, or the base is not a web address.
pub(super) fn endpoint(model: &ModelConfig, source: Option<&Source>) -> Result<reqwest::Url, ProviderError> {
    if model.id.trim().is_empty() {
        let advice = "name the id of a model or of an inference profile, or its ARN";
        return Err(refuse(model, ErrorKind::Other, "the model has no id", advice));
    }
    let path = path(&model.id);
    if model.base_url.is_some() {
        return request::endpoint(model, "https://bedrock-runtime.us-east-1.amazonaws.com", &path);
    }
    if let Some(base) = source.and_then(Source::endpoint) {
        return request::endpoint(model, &base, &path);
    }
    let Some(region) = region(model, source) else {
        let advice = "set the model's region, such as us-east-1, or its base_url";
        return Err(refuse(model, ErrorKind::Other, "no region was given for Bedrock", advice));
    };
    let base = resolved(&region).map_err(|cause| {
        let context = ErrorContext::new(format!("the region {region:?} has no address: {cause}"))
            .with_target(&*model.provider, &*model.id)
            .with_advice("set a region such as us-east-1");
        ProviderError::new(ErrorKind::Other, context)
    })?;
    request::endpoint(model, &base, &path)
}

/// Returns the SDK's endpoint for a region.
fn resolved(region: &str) -> Result<String, String> {
    static RESOLVER: OnceLock<DefaultResolver> = OnceLock::new();
    let params = Params::builder().region(region).build().map_err(|e| e.to_string())?;
    let resolver = RESOLVER.get_or_init(DefaultResolver::new);
    // The resolver does no I/O, so its future is ready at once.
    match ResolveEndpoint::resolve_endpoint(resolver, &params).now_or_never() {
        Some(Ok(endpoint)) => Ok(endpoint.url().to_owned()),
        Some(Err(error)) => Err(error.to_string()),
        None => Err("the SDK did not know it at once".to_owned()),
    }
}

/// The characters of a model's id that are escaped: all but the unreserved ones.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the path of a model, with its id as one segment.
fn path(id: &str) -> String {
    format!("/model/{}/converse-stream", utf8_percent_encode(id.trim(), ESCAPED))
}

/// The header that names the project to which the use of a model is assigned.
const PROJECT: HeaderName = HeaderName::from_static("x-amzn-bedrock-projectidentifier");

/// Returns the protocol's headers. The SDK adds its user agent and the signature when the request is sent.
///
/// # Errors
/// Returns an error if the model's project cannot be the value of a header.
pub(super) fn headers(model: &ModelConfig) -> Result<HeaderMap, ProviderError> {
    let mut headers = request::json_headers();
    headers.remove(USER_AGENT);
    headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.amazon.eventstream"));
    if let Some(project) = model.project.as_deref().map(str::trim).filter(|project| !project.is_empty()) {
        let value = HeaderValue::from_str(project).map_err(|_| {
            let message = format!("the project {project:?} cannot be sent in a header");
            refuse(model, ErrorKind::Other, &message, "set the model's project to the id that Bedrock shows")
        })?;
        headers.insert(PROJECT, value);
    }
    Ok(headers)
}
