//! OpenAI Responses over WebSocket: one connection for each conversation, over which a request sends only its new input.
//!
//! Suggested reading order: `message` (what is sent), `chain` (what the server already has), `pool` (the connections),
//! `steer` (messages of the user that end a reply early).

mod chain;
mod exchange;
mod message;
mod pool;
mod steer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, StreamEvent,
    StreamProvider,
};
use async_trait::async_trait;

use super::{OpenAiResponses, config};
use crate::Transport;
use crate::protocol::Protocol;
use crate::request::apply_custom;
use crate::transport::Opened;
use exchange::{Asked, Ended, exchange};
use pool::{Key, Pool};

/// The number of times that a request is sent again because the server no longer has the earlier reply, or because the
/// connection had ended before the request was sent.
const MAX_AGAIN: u32 = 2;

/// A provider for OpenAI Responses over WebSocket. Clones share their connections.
///
/// A conversation uses one connection, and a request sends only the input that the server does not have. Branches of a
/// conversation share its connection. If a server does not open a WebSocket, the provider uses HTTP for this address from then
/// on and emits one [`StreamEvent::Fallback`].
///
/// ```
/// use std::sync::Arc;
/// use agent_core::ApiProtocol;
/// use agent_providers::{OpenAiResponsesWsProvider, ProviderRegistry};
/// let mut registry = ProviderRegistry::default();
/// registry.register(ApiProtocol::OpenAiResponses, Arc::new(OpenAiResponsesWsProvider::new()));
/// ```
#[derive(Clone, Default)]
pub struct OpenAiResponsesWsProvider {
    transport: Transport,
    protocol: OpenAiResponses,
    pool: Arc<Pool>,
}

impl OpenAiResponsesWsProvider {
    /// Returns a provider that uses the clients of the process to open connections.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a provider that uses `transport`. A client of [`Transport::with_client`] must speak HTTP/1.1, because HTTP/2 has
    /// no upgrade.
    #[must_use]
    pub fn with_transport(transport: Transport) -> Self {
        Self { transport, ..Self::default() }
    }

    /// Makes a call over HTTP and reports once why.
    async fn over_http(
        &self,
        url: &str,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let sink: &mut EventSink<'_> = &mut |event: StreamEvent<'_>| {
            let begins = matches!(event, StreamEvent::Start { .. });
            sink(event);
            if begins && let Some(reason) = self.pool.announced(url) {
                sink(StreamEvent::Fallback { from: "WebSocket", to: "HTTP", reason: &reason });
            }
        };
        self.transport.call(&self.protocol, request, sink, cancel).await
    }
}

impl fmt::Debug for OpenAiResponsesWsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiResponsesWsProvider")
            .field("transport", &self.transport)
            .field("connections", &self.pool.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl StreamProvider for OpenAiResponsesWsProvider {
    fn provider_id(&self) -> &str {
        "openai_responses_ws"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        if cancel.is_cancelled() {
            return Err(ProviderError::Cancelled);
        }
        let url = config::endpoint(&request.model)?;
        if self.pool.falls_back(url.as_str()) {
            return self.over_http(url.as_str(), request, sink, cancel).await;
        }
        let mut headers = config::headers(request)?;
        apply_custom(&mut headers, request)?;
        let key = Key::new(&url, &headers, request.session_id.as_deref());
        let body = message::Body::of(request)?;
        let several = config::has_lanes(&request.model);
        let mut again = 0;
        loop {
            let taken = match self.pool.claim(&key, &body).or_else(|| self.pool.take(&key, &body, several)) {
                Some(taken) => taken,
                None => {
                    match self.transport.open(&self.protocol, request, &url, headers.clone(), cancel).await? {
                        Opened::Socket(socket) => match self.pool.add(&key, socket, several) {
                            Some(taken) => taken,
                            // The server closed the connection at once.
                            None if again < MAX_AGAIN => {
                                again += 1;
                                continue;
                            }
                            None => return Err(Transport::dressed(exchange::closed(), request)),
                        },
                        Opened::Unsupported(reason) => {
                            tracing::warn!(model = %request.model.id, %reason, "HTTP is used instead of WebSocket");
                            self.pool.fall_back(url.as_str(), reason);
                            return self.over_http(url.as_str(), request, sink, cancel).await;
                        }
                    }
                }
            };
            let asked = Asked {
                protocol: &self.protocol,
                request,
                url: &url,
                headers: &headers,
                body: &body,
                key: &key,
            };
            match exchange(&self.pool, &asked, taken, sink, cancel).await {
                Ok(completion) => return Ok(completion),
                Err(Ended::Again(error)) if again < MAX_AGAIN => {
                    tracing::debug!(%error, "the request is sent again with the whole input");
                    again += 1;
                }
                Err(Ended::Again(error) | Ended::Failed(error)) => {
                    return Err(Transport::dressed(error, request));
                }
            }
        }
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        crate::catalogue::complete(model)
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.protocol.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.protocol.sendable(request).ok().map(|ready| ready.body)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        self.protocol.cache_lifetime(request)
    }
}
