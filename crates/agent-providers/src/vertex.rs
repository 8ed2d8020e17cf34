//! Gemini and Claude on Vertex AI: the protocols of Gemini and of Anthropic at the address of a Google Cloud project and
//! region, with Google Cloud authentication.
//!
//! The API key of the model or of the call selects the kind of authentication:
//!
//! | key | credential that is sent |
//! |---|---|
//! | none | a token of the application default credentials, fetched for the first call and cached until it expires |
//! | the JSON of a service account | a token of that account, fetched and cached in the same way |
//! | a key that begins with `AIza` or `AQ.`, or any key if the model has no project | the key itself (express mode, only for Gemini) |
//! | any other key | the key as a bearer token |
//!
//! Application default credentials come from the same sources as for Google's own tools: the file that
//! `GOOGLE_APPLICATION_CREDENTIALS` names, the user's credentials after `gcloud auth application-default login`, the metadata
//! server and the `gcloud` command. [`check`](agent_core::StreamProvider::check) validates the configuration and does not
//! look for credentials.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::{AnthropicVertexProvider, VertexProvider};
//! let provider = VertexProvider::new();
//! assert_eq!(provider.provider_id(), "google_vertex");
//! let model = ModelConfig::vertex("my-project", "europe-west4", "gemini-2.5-flash");
//! assert!(provider.check(&model).is_ok());
//! assert!(provider.check(&ModelConfig::vertex("", "europe-west4", "gemini-2.5-flash")).is_err());
//!
//! let provider = AnthropicVertexProvider::new();
//! let model = ModelConfig::vertex_claude("my-project", "global", "claude-sonnet-4-5@20250929");
//! assert!(provider.check(&model).is_ok());
//! ```

mod claude;
mod config;
mod token;

use std::sync::Arc;

use agent_core::{ModelRequest, ProviderError};

use crate::google;
use crate::http_provider::http_provider;
use crate::protocol::{Decode, Fetching, Framing, HttpRequest, Protocol, Rejection};
use config::{Credential, Publisher};
use token::Tokens;

pub use claude::AnthropicVertexProvider;

/// The protocol. It caches the tokens that it has fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vertex {
    tokens: Arc<Tokens>,
}

impl Protocol for Vertex {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(request, Publisher::Google)?;
        let headers = config::headers(request)?;
        let body = google::body(request)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn authorise<'r>(&'r self, request: &'r ModelRequest) -> Option<Fetching<'r>> {
        authorise(&self.tokens, request)
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

/// Returns a future for the token of a request, if one must be fetched.
fn authorise<'r>(tokens: &'r Tokens, request: &'r ModelRequest) -> Option<Fetching<'r>> {
    match config::credential(request) {
        Credential::Default => Some(Box::pin(tokens.of_default(&request.model))),
        Credential::Account(json) => Some(Box::pin(tokens.of_account(&request.model, json))),
        Credential::Key(_) | Credential::Bearer(_) | Credential::ByHand => None,
    }
}

http_provider!(
    /// A provider for Gemini models on Vertex AI. Clones share one connection pool and the cached tokens, which are fetched
    /// over separate connections.
    VertexProvider,
    Vertex,
    "google_vertex"
);
