//! Gemini on Vertex AI: the protocol of the Gemini API at the address of a project and a region, with the signing in of
//! Google Cloud (REQ-121).
//!
//! Who calls is told by the key of the model or of the call:
//!
//! | key | what is sent |
//! |---|---|
//! | none | a token of the application default credentials, fetched when it is first needed and kept until it expires |
//! | the JSON of a service account | a token of that account, likewise |
//! | `AIza..` or `AQ...`, or any with a model that has no project | the key, as in express mode |
//! | any other | the key as a bearer token |
//!
//! Application default credentials are found as Google's own tools find them: the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, the user's own after `gcloud auth application-default login`, the metadata
//! server, the `gcloud` command. [`check`](agent_core::StreamProvider::check) looks for none of them: it says whether
//! the configuration makes sense, not whether somebody is signed in.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::VertexProvider;
//! let provider = VertexProvider::new();
//! assert_eq!(provider.provider_id(), "google_vertex");
//! let model = ModelConfig::vertex("my-project", "europe-west4", "gemini-2.5-flash");
//! assert!(provider.check(&model).is_ok());
//! assert!(provider.check(&ModelConfig::vertex("", "europe-west4", "gemini-2.5-flash")).is_err());
//! ```

mod config;
mod token;

use std::sync::Arc;

use agent_core::{
    CancellationToken, Completion, EventSink, ModelConfig, ModelRequest, ProviderError, StreamProvider,
};
use async_trait::async_trait;

use crate::google;
use crate::protocol::{Decode, Fetching, Framing, HttpRequest, Protocol, Rejection};
use crate::transport::Transport;
use config::Credential;
use token::Tokens;

/// The protocol. It keeps the tokens that it has fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vertex {
    tokens: Arc<Tokens>,
}

impl Protocol for Vertex {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(request)?;
        let headers = config::headers(request)?;
        let body = google::body(request)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn authorise<'r>(&'r self, request: &'r ModelRequest) -> Option<Fetching<'r>> {
        match config::credential(request) {
            Credential::Default => Some(Box::pin(self.tokens.of_default(&request.model))),
            Credential::Account(json) => Some(Box::pin(self.tokens.of_account(&request.model, json))),
            Credential::Key(_) | Credential::Bearer(_) | Credential::ByHand => None,
        }
    }

    fn framing(&self) -> Framing {
        Framing::SseOrJson
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(google::Decoder::new(request))
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        google::rejected(request, rejection)
    }
}

/// Calls Gemini models on Vertex AI (REQ-121). A clone shares connections and tokens.
#[derive(Debug, Clone, Default)]
pub struct VertexProvider {
    transport: Transport,
    protocol: Vertex,
}

impl VertexProvider {
    /// A provider over the connections that the process shares.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A provider over these connections. Tokens are fetched over connections of their own.
    #[must_use]
    pub fn with_transport(transport: Transport) -> Self {
        Self { transport, protocol: Vertex::default() }
    }
}

#[async_trait]
impl StreamProvider for VertexProvider {
    fn provider_id(&self) -> &str {
        "google_vertex"
    }

    async fn stream(
        &self,
        request: &ModelRequest,
        sink: &mut EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.transport.call(&self.protocol, request, sink, cancel).await
    }

    fn check(&self, model: &ModelConfig) -> Result<(), ProviderError> {
        self.protocol.check(model)
    }

    fn body(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.protocol.encode(request).ok().map(|ready| ready.body)
    }
}
