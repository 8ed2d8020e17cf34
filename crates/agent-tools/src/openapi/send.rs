//! Sends a request and reads its response with limits.

use std::error::Error as _;

use agent_core::ToolError;
use reqwest::header::LOCATION;
use reqwest::{Client, Method, Response, StatusCode, Url};

use super::request::Wire;
use super::response::{Answer, End};
use super::{MAX_READ_BYTES, MAX_REDIRECTS, MAX_URL_BYTES};
use crate::secrets::Secrets;

/// Sends a request once, and follows redirects of a GET or HEAD that stay at the host.
///
/// # Errors
/// The reason why there is no response, without credentials of the address.
pub(super) async fn send(client: &Client, wire: Wire, secrets: &Secrets) -> Result<Answer, ToolError> {
    let Wire { method, mut url, mut shown, headers, body } = wire;
    let mut redirects = 0;
    loop {
        let mut request = client.request(method.clone(), url.clone()).headers(headers.clone());
        if let Some(body) = &body {
            request = request.body(body.clone());
        }
        let response = request.send().await.map_err(|error| failure(&method, &shown, error, secrets))?;
        match next(&method, &url, &response) {
            Some(next) if redirects < MAX_REDIRECTS => {
                redirects += 1;
                shown = secrets.redact(next.as_str());
                url = next;
            }
            _ => return Ok(read(method, shown, response, secrets).await),
        }
    }
}

/// Returns the target of a redirect if it may be followed. The headers contain credentials, so it must be within the
/// origin, and it must not be longer than the address of a request.
fn next(method: &Method, url: &Url, response: &Response) -> Option<Url> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    if !is_redirect || !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let next = url.join(response.headers().get(LOCATION)?.to_str().ok()?).ok()?;
    let is_near = next.origin() == url.origin() && next.username().is_empty() && next.password().is_none();
    (is_near && next.as_str().len() <= MAX_URL_BYTES).then_some(next)
}

async fn read(method: Method, url: String, mut response: Response, secrets: &Secrets) -> Answer {
    let status = response.status();
    let headers = response.headers().clone();
    let mut bytes = Vec::new();
    let end = loop {
        match response.chunk().await {
            Ok(None) => break End::Whole,
            Ok(Some(chunk)) => {
                let room = MAX_READ_BYTES - bytes.len();
                bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
                if chunk.len() > room {
                    break End::Bound;
                }
            }
            Err(error) => break End::Broken(secrets.redact(&causes(error))),
        }
    };
    Answer { method, url, status, headers, bytes, end }
}

fn failure(method: &Method, shown: &str, error: reqwest::Error, secrets: &Secrets) -> ToolError {
    let happened = if error.is_connect() || error.is_builder() {
        "could not be sent"
    } else {
        "got no answer; whether it took effect is not known"
    };
    ToolError::Failed(secrets.redact(&format!("{method} {shown} {happened}: {}", causes(error))))
}

/// Returns the error with all causes, without the address, which may contain a key.
pub(super) fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
