//! A provider that is reached over the network: the other side holds the keys.
//!
//! [`RemoteProvider`] sends what is asked to a server of one's own, as one JSON body with a token, and never a key, a header
//! or an address: the server chooses those by provider and model. What comes back are the pieces of the reply, not the reply
//! so far, and the same message is built from them here as there. An error keeps its kind, the wait and the vendor's text.
//!
//! A server is a [`RemoteRequest`] read from the body, the provider of one's choice, and [`event_frame`] and [`end_frame`]
//! for what it says; `examples/looptree_server` is one. The token goes out as it is: over a network that is not one's own the
//! address must be `https`.
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
mod error;
mod wire;

#[cfg(test)]
mod tests;

use std::fmt;

use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, Secret,
    StreamProvider,
};
use async_trait::async_trait;

use crate::Transport;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

pub use encode::PATH;
pub use wire::{RemoteRequest, end_frame, event_frame, refusal};

/// Calls models through a server that holds the keys (seed 001). It serves every protocol.
#[derive(Clone)]
pub struct RemoteProvider {
    transport: Transport,
    remote: Remote,
}

/// Where the server is, and who we are.
#[derive(Clone)]
struct Remote {
    base_url: String,
    token: Secret,
}

impl RemoteProvider {
    /// A provider behind the server at this address, over the connections that the process shares.
    #[must_use]
    pub fn new(base_url: impl Into<String>, token: impl Into<Secret>) -> Self {
        Self {
            transport: Transport::default(),
            remote: Remote { base_url: base_url.into(), token: token.into() },
        }
    }

    /// The same over other connections.
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
        // The transport knows the model's key; this is another credential.
        end.map_err(|error| error.map_context(|c| c.message = self.remote.token.redact(&c.message)))
    }

    /// Loops are named as they would be without the server.
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
        error::rejected(request, rejection)
    }
}
