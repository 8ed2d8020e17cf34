//! A provider that calls models through your own server, which holds the API keys.
//!
//! [`RemoteProvider`] sends the request to the server as one JSON body with a token. It never sends a key, a header or an
//! address; the server selects those by provider and model. The response contains the stream events of the reply, from which
//! the client builds the same message as the server. Errors preserve their kind, the vendor's delay and the vendor's text.
//!
//! A server parses the body as a [`RemoteRequest`], calls a provider and writes its events with [`event_frame`] and
//! [`end_frame`]; see `examples/looptree_server`. The token is sent unencrypted unless the address is `https`.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::RemoteProvider;
//! let provider = RemoteProvider::new("https://models.example.org", "token");
//! let model = ModelConfig::anthropic("claude-haiku-4-5", "Haiku", ""); // no key
//! provider.check(&model)?;
//! assert_eq!(provider.provider_id_for(&model), "anthropic");
//! # Ok::<(), agent_core::ProviderError>(())
//! ```

mod decode;
mod encode;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt;

use agent_core::{
    CancellationToken, Completion, ErrorKind, EventSink, ModelConfig, ModelRequest, ProviderError, Secret,
    StreamProvider,
};
use async_trait::async_trait;

use crate::Transport;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

pub use encode::PATH;
pub use wire::{RemoteRequest, end_frame, event_frame, refusal};

/// A provider that calls models of any protocol through a server that holds the API keys. Clones share one connection
/// pool.
#[derive(Clone)]
pub struct RemoteProvider {
    transport: Transport,
    remote: Remote,
}

/// The server's address and the token for it.
#[derive(Clone)]
struct Remote {
    base_url: String,
    token: Secret,
}

impl RemoteProvider {
    /// Returns a provider for the server at `base_url`, which uses the connection pool of the process.
    #[must_use]
    pub fn new(base_url: impl Into<String>, token: impl Into<Secret>) -> Self {
        Self {
            transport: Transport::default(),
            remote: Remote { base_url: base_url.into(), token: token.into() },
        }
    }

    /// Replaces the connection pool.
    #[must_use]
    pub fn with_transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }
}

impl fmt::Debug for RemoteProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteProvider").finish_non_exhaustive()
    }
}

#[async_trait]
impl StreamProvider for RemoteProvider {
    fn provider_id(&self) -> &str {
        "remote"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        let end = self.transport.call(&self.remote, request, sink, cancel).await;
        // The transport redacts the model's key only.
        end.map_err(|error| error.map_context(|c| c.message = self.remote.token.redact(&c.message)))
    }

    fn complete_model(&self, model: &ModelConfig) -> Option<ModelConfig> {
        crate::catalogue::complete(model)
    }

    /// Returns the id of the provider that the server calls, so that loop ids do not depend on the server.
    fn provider_id_for(&self, model: &ModelConfig) -> String {
        model.api.provider_id().to_owned()
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.remote.check(model)
    }
}

impl Protocol for Remote {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        encode::request(self, request)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(decode::Decoder::default())
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        let error = crate::rejection::read(request, rejection);
        let kind = error.kind();
        error.map_context(|context| {
            // The usual advice is about the vendor's key, which only the server has.
            context.advice = match kind {
                ErrorKind::Auth => Some("check the token for the Looptree server".to_owned()),
                ErrorKind::ModelNotFound => Some(format!(
                    "see that the server has the model {:?} of {:?}",
                    request.model.id, request.model.provider
                )),
                _ => context.advice.take(),
            };
        })
    }
}
