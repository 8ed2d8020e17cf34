//! Opens a connection: an HTTP request that asks for an upgrade.

use std::sync::Arc;
use std::time::Duration;

use agent_core::{CancellationToken, ModelRequest, ProviderError};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::carry::carry;
use super::{MAX_LANES, SOCKET_IDLE, Shared, Socket};
use crate::protocol::{Protocol, Rejection};
use crate::transport::call::dress;
use crate::transport::send::Head;
use crate::transport::{ERROR_TIMEOUT, Inner, Transport, failure};

/// The time limit for the answer to the upgrade, if the header timeout is longer. The server has nothing to compute for it.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(30);

/// Statuses that a request over HTTP would receive as well.
const AS_OVER_HTTP: &[StatusCode] =
    &[StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];

/// The result of opening a connection.
pub(crate) enum Opened {
    /// The connection is open.
    Socket(Socket),
    /// The server, or something before it, does not open one.
    Unsupported(String),
}

impl Transport {
    /// Opens a connection to the address of a request, with its headers.
    ///
    /// # Errors
    /// Returns the error that a request over HTTP would return if the server cannot be reached, rejects the key, or limits
    /// the rate.
    pub(crate) async fn open(
        &self,
        protocol: &dyn Protocol,
        request: &ModelRequest,
        url: &reqwest::Url,
        headers: HeaderMap,
        cancel: &CancellationToken,
    ) -> Result<Opened, ProviderError> {
        let mut head = Head::default();
        let opened = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ProviderError::Cancelled),
            opened = upgrade(&self.inner, protocol, request, (url, headers), &mut head) => opened,
        };
        opened.map_err(|error| dress(error, request, &head))
    }

    /// Adds the model to an error of a lane and removes every credential from its texts.
    pub(crate) fn dressed(error: ProviderError, request: &ModelRequest) -> ProviderError {
        dress(error, request, &Head::default())
    }
}

async fn upgrade(
    inner: &Inner,
    protocol: &dyn Protocol,
    request: &ModelRequest,
    (url, mut headers): (&reqwest::Url, HeaderMap),
    head: &mut Head,
) -> Result<Opened, ProviderError> {
    let client = inner.clients.for_upgrade(url)?;
    let key = generate_key();
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::ACCEPT);
    let fixed: [(HeaderName, &str); 4] = [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_KEY, &key),
    ];
    for (name, value) in fixed {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    let mut asked = reqwest::Request::new(reqwest::Method::GET, url.clone());
    *asked.headers_mut() = headers;
    *asked.version_mut() = http::Version::HTTP_11;
    let limit = inner.config.header_timeout.min(UPGRADE_TIMEOUT);
    let response = match tokio::time::timeout(limit, client.execute(asked)).await {
        Ok(Ok(response)) => response,
        // HTTP would not reach the server either.
        Ok(Err(error)) if error.is_connect() || error.is_builder() => {
            return Err(failure::sending(error, url));
        }
        Ok(Err(_)) => return Ok(Opened::Unsupported("the connection broke during the upgrade".to_owned())),
        Err(_) => {
            let reason = format!("the server did not answer the upgrade within {} s", limit.as_secs_f64());
            return Ok(Opened::Unsupported(reason));
        }
    };
    let status = response.status();
    if AS_OVER_HTTP.contains(&status) {
        *head = Head::of(status, response.headers(), None);
        let body =
            tokio::time::timeout(ERROR_TIMEOUT.min(inner.config.idle_timeout), rejection(inner, response));
        let body = body.await.unwrap_or_default();
        let rejection = Rejection { status: status.as_u16(), body: &body, error_type: None };
        return Err(protocol.rejected(request, &rejection));
    }
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let reason = format!("the server answered the upgrade with status {}", status.as_u16());
        return Ok(Opened::Unsupported(reason));
    }
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Ok(Opened::Unsupported("the server's answer to the upgrade is not valid".to_owned()));
    }
    let Ok(upgraded) = response.upgrade().await else {
        return Ok(Opened::Unsupported("the connection broke after the upgrade".to_owned()));
    };
    let most = Some(inner.config.max_frame_bytes);
    let config = WebSocketConfig::default().max_message_size(most).max_frame_size(most);
    let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
    let (outgoing, messages) = mpsc::channel(MAX_LANES);
    let shared = Arc::new(Shared { lanes: std::sync::Mutex::default(), stop: CancellationToken::new() });
    tokio::spawn(carry(stream, messages, Arc::clone(&shared), SOCKET_IDLE));
    Ok(Opened::Socket(Socket { shared, outgoing, config: inner.config.clone() }))
}

/// Reads the beginning of an error response.
async fn rejection(inner: &Inner, mut response: reqwest::Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() >= inner.config.max_error_bytes {
            bytes.truncate(inner.config.max_error_bytes);
            break;
        }
    }
    bytes
}
