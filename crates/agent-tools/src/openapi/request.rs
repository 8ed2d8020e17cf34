//! Encodes arguments as a request.

use agent_core::ToolError;
use oas3::spec::{ParameterIn, ParameterStyle};
use reqwest::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Map, Value};

use super::MAX_URL_BYTES;
use super::body;
use super::config::PathSlashes;
use super::credentials::Placed;
use super::operation::Operation;
use super::parameter::{Form, Parameter};
use super::reserved::{self, Reserved};
use super::style::{self, Explode, Keep};

/// The maximum length of a header from an argument, in bytes.
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// A request, ready to be sent.
pub(super) struct Wire {
    pub(super) method: Method,
    pub(super) url: Url,
    /// The address without credentials.
    pub(super) shown: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

/// The settings that decide about arguments in addition to the operation.
pub(super) struct Rules<'a> {
    pub(super) reserved: &'a Reserved,
    pub(super) slashes: PathSlashes,
}

/// Encodes the request of a call.
///
/// # Errors
/// Returns the argument that cannot be sent, with the reason.
pub(super) fn wire(
    operation: &Operation,
    arguments: &Map<String, Value>,
    rules: &Rules<'_>,
) -> Result<Wire, ToolError> {
    made(operation, arguments, rules).map_err(ToolError::InvalidArgs)
}

fn made(operation: &Operation, arguments: &Map<String, Value>, rules: &Rules<'_>) -> Result<Wire, String> {
    let path = operation.template.filled(&operation.parameters, arguments, rules.slashes)?;
    let mut query = Vec::new();
    let mut cookies = Vec::new();
    let mut headers = HeaderMap::new();
    headers
        .insert(ACCEPT, HeaderValue::from_str(&operation.accept).unwrap_or(HeaderValue::from_static("*/*")));
    for parameter in &operation.parameters {
        let value = match arguments.get(&parameter.property) {
            Some(value) if !value.is_null() => value,
            _ if parameter.required => return Err(format!("`{}` is missing", parameter.property)),
            _ => continue,
        };
        match parameter.place {
            ParameterIn::Path => {}
            ParameterIn::Query => {
                let is_taken = |name: &str| rules.reserved.has_query(name);
                query.extend(pairs(parameter, value, &is_taken)?);
            }
            ParameterIn::Cookie => {
                let is_taken = |name: &str| rules.reserved.has_cookie(name);
                cookies.extend(pairs(parameter, value, &is_taken)?);
            }
            ParameterIn::Header => header(parameter, value, &mut headers)?,
        }
    }
    let body = match &operation.body {
        None => None,
        Some(body) => match arguments.get(&body.property) {
            Some(value) if body.required || !value.is_null() => {
                let (media_type, bytes) = body::written(body, value)?;
                let media_type = HeaderValue::from_str(&media_type)
                    .map_err(|_| format!("`{}` cannot be sent as {media_type}", body.property))?;
                headers.insert(CONTENT_TYPE, media_type);
                Some(bytes)
            }
            _ if body.required => return Err(format!("`{}` is missing", body.property)),
            _ => None,
        },
    };
    let mut url = address(operation, &path)?;
    if !query.is_empty() {
        url.set_query(Some(&query.join("&")));
    }
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(format!("the address has more than {MAX_URL_BYTES} bytes with these values"));
    }
    let shown = url.as_str().to_owned();
    sign(&operation.credentials, &mut url, &mut headers, cookies)?;
    Ok(Wire { method: operation.method.clone(), url, shown, headers, body })
}

/// Returns the address of the API with the path appended. The result is compared with the input, because URL
/// normalization must not lead to another path or host.
fn address(operation: &Operation, path: &str) -> Result<Url, String> {
    let whole = format!("{}{path}", operation.base.path());
    let mut url = operation.base.url().clone();
    url.set_path(&whole);
    let expected = if whole.is_empty() { "/" } else { whole.as_str() };
    if url.path() != expected || url.origin().ascii_serialization() != operation.base.origin() {
        return Err("with these values the path leads out of its place".to_owned());
    }
    Ok(url)
}

fn pairs(
    parameter: &Parameter,
    value: &Value,
    is_taken: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, String> {
    let written = match parameter.form {
        Form::Styled { style, explode, keep } => style::pairs(&parameter.name, value, style, explode, keep),
        Form::Json | Form::Segments => {
            let text = Value::String(value.to_string());
            style::pairs(&parameter.name, &text, ParameterStyle::Form, Explode::One, Keep::Unreserved)
        }
    };
    let pairs = written.map_err(|why| format!("`{}` {why}", parameter.property))?;
    // The fields of an object may be sent as separate parameters.
    if let Some(pair) = pairs.iter().find(|pair| is_taken(&pair.name)) {
        let owner = if reserved::is_override(&pair.name) {
            "would override the method of the request"
        } else {
            "belongs to the caller's credentials"
        };
        return Err(format!("`{}` sets `{}`, which {owner}", parameter.property, pair.name));
    }
    Ok(pairs.into_iter().map(|pair| pair.text).collect())
}

fn header(parameter: &Parameter, value: &Value, headers: &mut HeaderMap) -> Result<(), String> {
    let refused = |why: &str| format!("`{}` {why}", parameter.property);
    let text = match parameter.form {
        Form::Styled { explode, .. } => style::in_header(value, explode),
        Form::Json | Form::Segments => Some(value.to_string()),
    };
    let Some(text) = text else { return Ok(()) };
    if text.len() > MAX_HEADER_BYTES {
        return Err(refused(&format!("is longer than {MAX_HEADER_BYTES} bytes, which a header cannot be")));
    }
    if text.chars().any(char::is_control) {
        return Err(refused("has a line end or another control character, which a header cannot hold"));
    }
    let name = HeaderName::from_bytes(parameter.name.as_bytes()).map_err(|_| refused("has no valid name"))?;
    let value = HeaderValue::from_bytes(text.trim().as_bytes())
        .map_err(|_| refused("has characters that a header cannot hold"))?;
    headers.insert(name, value);
    Ok(())
}

/// Adds the credentials, which replace existing values.
fn sign(
    credentials: &[Placed],
    url: &mut Url,
    headers: &mut HeaderMap,
    mut cookies: Vec<String>,
) -> Result<(), String> {
    for placed in credentials {
        match placed {
            Placed::Header(name, value) => {
                headers.insert(name.clone(), value.clone());
            }
            Placed::Query(name, value) => {
                url.query_pairs_mut().append_pair(name, value.expose());
            }
            Placed::Cookie(name, value) => cookies.push(format!("{name}={}", value.expose())),
        }
    }
    if !cookies.is_empty() {
        if let Some(there) = headers.get(COOKIE).and_then(|value| value.to_str().ok()) {
            cookies.insert(0, there.to_owned());
        }
        let mut value = HeaderValue::from_str(&cookies.join("; "))
            .map_err(|_| "the cookies have characters that a header cannot hold".to_owned())?;
        value.set_sensitive(true);
        headers.insert(COOKIE, value);
    }
    Ok(())
}
