//! The HTTP client, headers and limits for servers over HTTP.

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

/// The maximum number of attempts to resume a stream that was interrupted. The first delay is 0.5 s and doubles, unless
/// the server sends one.
const MAX_RESUMES: usize = 4;

/// Returns the limits of the SDK's transport. By default the SDK tries to resume a stream for ever.
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
        // A new session is a new connection, whose tools are checked before the next call.
        .reinit_on_expired_session(false)
        .max_concurrent_requests(MAX_CONCURRENT_REQUESTS);
    config.retry_config = Arc::new(resume);
    config
}

/// Returns the client that sends the requests.
///
/// It does not follow redirects, because the headers contain credentials, which another host must not receive.
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

/// Returns the caller's headers. Their values are marked as sensitive, so request logs omit them.
pub(super) fn headers(
    server: &str,
    http: &HttpTransport,
) -> Result<Vec<(HeaderName, HeaderValue)>, McpError> {
    let bearer =
        http.bearer.iter().map(|token| (AUTHORIZATION.as_str(), format!("Bearer {}", token.expose())));
    let given = http.headers.iter().map(|(name, value)| (name.as_str(), value.expose().to_owned()));
    let mut headers = Vec::new();
    for (name, value) in given.chain(bearer) {
        // The value is not shown, because it may be a secret.
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
