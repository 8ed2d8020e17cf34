//! What is special about servers over HTTP.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::MAX_MESSAGE_BYTES;
use super::error::McpError;
use super::server::HttpTransport;

/// The maximum number of concurrent requests to one server.
const MAX_CONCURRENT_REQUESTS: usize = 64;

/// How often the rest of an answer, or of the server's own messages, is requested again after the stream broke; the
/// waits are 0.5 s and double, unless the server sends a delay.
const MAX_RESUMES: usize = 4;

/// The bounds of the SDK's transport. Its own is to ask a dead server for the rest of an answer for ever.
pub(super) fn config(
    url: &str,
    headers: Vec<(HeaderName, HeaderValue)>,
) -> StreamableHttpClientTransportConfig {
    let mut resume = ExponentialBackoff::default();
    resume.max_times = Some(MAX_RESUMES);
    resume.base_duration = Duration::from_millis(500);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers.into_iter().collect())
        .max_sse_event_size(MAX_MESSAGE_BYTES)
        .max_concurrent_requests(MAX_CONCURRENT_REQUESTS);
    config.retry_config = Arc::new(resume);
    config
}

/// The client that requests go through.
///
/// It follows no redirect: the headers, and with them the credentials, would go to wherever the server points.
pub(super) fn client(
    server: &str,
    http: &HttpTransport,
    connect_timeout: Duration,
) -> Result<reqwest::Client, McpError> {
    if let Some(client) = &http.client {
        return Ok(client.clone());
    }
    reqwest::Client::builder().redirect(Policy::none()).connect_timeout(connect_timeout).build().map_err(
        |error| McpError::Transport {
            server: server.to_owned(),
            doing: "making an HTTP client".to_owned(),
            stderr: super::StderrTail::default(),
            source: Arc::new(error),
        },
    )
}

/// The headers of the caller. Their values are marked as sensitive, so request logs omit them.
pub(super) fn headers(
    server: &str,
    http: &HttpTransport,
) -> Result<Vec<(HeaderName, HeaderValue)>, McpError> {
    let bearer =
        http.bearer.iter().map(|token| (AUTHORIZATION.as_str(), format!("Bearer {}", token.expose())));
    let given = http.headers.iter().map(|(name, value)| (name.as_str(), value.expose().to_owned()));
    let mut headers = Vec::new();
    for (name, value) in given.chain(bearer) {
        // The errors of the parsers say no more than this; the value is not shown.
        let bad = |what: &str| McpError::Io {
            server: server.to_owned(),
            doing: format!("setting the header `{name}`"),
            source: Arc::new(io::Error::new(io::ErrorKind::InvalidInput, format!("its {what} is not valid"))),
        };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("name"))?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| bad("value"))?;
        value.set_sensitive(true);
        headers.push((key, value));
    }
    Ok(headers)
}
