//! The connections to providers: the only place of this crate that opens a socket.
//!
//! One process has one set of pooled clients, built when the first request needs them, and everybody shares it. A
//! request is sent once: there are no retries here (the loop retries, with a policy that the user sees) and redirects
//! are not followed, because a key must not travel to another host.
//!
//! ```
//! use std::time::Duration;
//! use agent_providers::{Transport, TransportConfig};
//! let config = TransportConfig::default().with_idle_timeout(Duration::from_secs(60));
//! let own = Transport::new(config); // connections of its own
//! let shared = Transport::default(); // those of the process
//! # let _ = (own, shared);
//! ```

mod body;
mod call;
mod client;
mod failure;
mod guard;
mod retry_after;
mod send;
pub(crate) mod tap;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent_core::{CancellationToken, Completion, EventSink, ModelRequest, ProviderError};

use crate::protocol::Protocol;
#[cfg(fuzzing)]
pub(crate) use call::Framer;
use client::Clients;

/// The longest wait for a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest wait for the head of the answer. Local servers load a model and read the prompt before they send it.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(600);

/// The longest silence within an answer.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// The longest line, event or JSON body of an answer, in bytes.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// The most bytes that are read of an error answer.
pub const MAX_ERROR_BYTES: usize = 64 << 10;

/// How long and how much a [`Transport`] takes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportConfig {
    /// The longest wait for a connection; [`CONNECT_TIMEOUT`] by default. A client of the caller's has its own.
    pub connect_timeout: Duration,
    /// The longest wait for the head of the answer; [`HEADER_TIMEOUT`] by default.
    pub header_timeout: Duration,
    /// The longest silence within an answer; [`IDLE_TIMEOUT`] by default. It is noticed after this time, and a
    /// quarter of it later at most.
    pub idle_timeout: Duration,
    /// The longest line, event or JSON body of an answer, in bytes; [`MAX_FRAME_BYTES`] by default.
    pub max_frame_bytes: usize,
    /// The most bytes that are read of an error answer; [`MAX_ERROR_BYTES`] by default.
    pub max_error_bytes: usize,
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            connect_timeout: CONNECT_TIMEOUT,
            header_timeout: HEADER_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            max_frame_bytes: MAX_FRAME_BYTES,
            max_error_bytes: MAX_ERROR_BYTES,
        }
    }
}

impl TransportConfig {
    /// The same with another bound on the wait for a connection.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The same with another bound on the wait for the head of the answer.
    #[must_use]
    pub fn with_header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// The same with another bound on the silence within an answer.
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// The same with another bound on a line, an event or a JSON body.
    #[must_use]
    pub fn with_max_frame_bytes(mut self, bytes: usize) -> Self {
        self.max_frame_bytes = bytes;
        self
    }
}

/// Connections to providers. A clone shares them.
#[derive(Clone)]
pub struct Transport {
    inner: Arc<Inner>,
}

struct Inner {
    config: TransportConfig,
    clients: Clients,
}

impl Transport {
    /// Connections of its own.
    #[must_use]
    pub fn new(config: TransportConfig) -> Self {
        let clients = Clients::lazy(config.connect_timeout);
        Self { inner: Arc::new(Inner { config, clients }) }
    }

    /// The caller's own client, for proxies, certificates or headers that this crate knows nothing of. Switch its
    /// retries and redirects off: a model call must not be sent twice, and a key must not follow a redirect.
    #[must_use]
    pub fn with_client(client: reqwest::Client, config: TransportConfig) -> Self {
        Self { inner: Arc::new(Inner { config, clients: Clients::given(client) }) }
    }

    /// The limits.
    #[must_use]
    pub fn config(&self) -> &TransportConfig {
        &self.inner.config
    }

    /// Makes one call: encodes, sends once, decodes what arrives into `sink`.
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
    /// The client for this address.
    pub(crate) fn client(&self, url: &reqwest::Url) -> Result<&reqwest::Client, ProviderError> {
        self.inner.clients.for_url(url)
    }
}

impl Default for Transport {
    /// The connections that the whole process shares.
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
