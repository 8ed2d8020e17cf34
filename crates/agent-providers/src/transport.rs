//! HTTP connections to providers. No other module of this crate opens sockets.
//!
//! By default all providers of a process share one set of pooled clients, which the first request creates. A request is sent
//! once: the agent's loop does the retries, so that its policy and events cover them. Redirects are not followed, because
//! they could send a key to another host.
//!
//! ```
//! use std::time::Duration;
//! use agent_providers::{Transport, TransportConfig};
//! let config = TransportConfig::default().with_idle_timeout(Duration::from_secs(60));
//! let own = Transport::new(config); // a separate connection pool
//! let shared = Transport::default(); // the connection pool of the process
//! # let _ = (own, shared);
//! ```

mod body;
mod body_kind;
mod call;
mod client;
mod failure;
mod fetch;
mod guard;
pub(crate) mod retry_after;
mod send;
#[cfg(feature = "openai-responses-ws")]
mod socket;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::{CancellationToken, Completion, EventSink, ModelRequest, ProviderError};

use crate::protocol::Protocol;
#[cfg(fuzzing)]
pub(crate) use call::Framer;
#[cfg(feature = "openai-responses-ws")]
pub(crate) use call::is_content;
use client::Clients;
#[cfg(feature = "openai-responses-ws")]
pub(crate) use socket::{Lane, Opened, Socket};

/// The default time limit for establishing a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The default time limit for the response headers. Local servers load the model and process the prompt before they send
/// them.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(600);

/// The default time limit between two pieces of a response body.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The default time limit between two pieces of content in a response: 30 minutes. Keep-alive comments, pings and empty
/// deltas show that the server is alive, so they reset [`IDLE_TIMEOUT`], but they are not content. Vendors send them while
/// a model thinks without showing it, which takes minutes.
pub const CONTENT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The maximum number of bytes of a response between two pieces of content: 64 MiB.
pub const MAX_BYTES_WITHOUT_CONTENT: usize = 64 << 20;

/// The time limit for reading an error response, whose status already determines the kind of error.
pub const ERROR_TIMEOUT: Duration = Duration::from_secs(30);

/// The default maximum size of a line, an event or a JSON body of a response, in bytes.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// The default number of bytes that are read of an error response.
pub const MAX_ERROR_BYTES: usize = 64 << 10;

/// The time and size limits of a [`Transport`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportConfig {
    /// The time limit for establishing a connection. Default: [`CONNECT_TIMEOUT`]. It does not apply to the client of
    /// [`Transport::with_client`].
    pub connect_timeout: Duration,
    /// The time limit for the response headers. Default: [`HEADER_TIMEOUT`].
    pub header_timeout: Duration,
    /// The time limit between two pieces of a response body. Default: [`IDLE_TIMEOUT`]. The call fails between one and one
    /// and a quarter times this limit.
    pub idle_timeout: Duration,
    /// The time limit between two pieces of content in a response: text, thinking, parts of tool calls. Default:
    /// [`CONTENT_TIMEOUT`].
    pub content_timeout: Duration,
    /// The maximum size of a line, an event or a JSON body of a response, in bytes. Default: [`MAX_FRAME_BYTES`].
    pub max_frame_bytes: usize,
    /// The number of bytes that are read of an error response. Default: [`MAX_ERROR_BYTES`].
    pub max_error_bytes: usize,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            header_timeout: HEADER_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            content_timeout: CONTENT_TIMEOUT,
            max_frame_bytes: MAX_FRAME_BYTES,
            max_error_bytes: MAX_ERROR_BYTES,
        }
    }
}

impl TransportConfig {
    /// Sets the time limit for establishing a connection.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the time limit for the response headers.
    #[must_use]
    pub fn with_header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Sets the time limit between two pieces of a response body.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Sets the time limit between two pieces of content in a response.
    #[must_use]
    pub fn with_content_timeout(mut self, timeout: Duration) -> Self {
        self.content_timeout = timeout;
        self
    }

    /// Sets the maximum size of a line, an event or a JSON body, in bytes.
    #[must_use]
    pub fn with_max_frame_bytes(mut self, bytes: usize) -> Self {
        self.max_frame_bytes = bytes;
        self
    }
}

/// A pool of connections to providers. Clones share the pool.
#[derive(Clone)]
pub struct Transport {
    inner: Arc<Inner>,
}

struct Inner {
    config: TransportConfig,
    clients: Clients,
}

impl Transport {
    /// Returns a separate connection pool with these limits.
    #[must_use]
    pub fn new(config: TransportConfig) -> Self {
        let clients = Clients::lazy(config.connect_timeout);
        Self { inner: Arc::new(Inner { config, clients }) }
    }

    /// Returns a transport that uses `client`, for example for proxies, certificates or additional headers. Disable the
    /// client's retries and redirects: a model call must not be sent twice, and a redirect must not receive a key.
    #[must_use]
    pub fn with_client(client: reqwest::Client, config: TransportConfig) -> Self {
        Self { inner: Arc::new(Inner { config, clients: Clients::given(client) }) }
    }

    /// Returns the time and size limits of this transport.
    #[must_use]
    pub fn config(&self) -> &TransportConfig {
        &self.inner.config
    }

    /// Makes one call: encodes the request, sends it once and decodes the response into `sink`.
    pub(crate) async fn call(
        &self,
        protocol: &dyn Protocol,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        call::call(&self.inner, protocol, request, sink, cancel).await
    }
}

#[cfg(feature = "bedrock-config")]
impl Transport {
    /// Returns the client for an address.
    pub(crate) fn client(&self, url: &reqwest::Url) -> Result<&reqwest::Client, ProviderError> {
        self.inner.clients.for_url(url)
    }
}

impl Default for Transport {
    /// Returns the connection pool that the whole process shares.
    fn default() -> Self {
        static SHARED: OnceLock<Transport> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(TransportConfig::default())).clone()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("config", &self.inner.config).finish_non_exhaustive()
    }
}
