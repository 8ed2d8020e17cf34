//! Google's Gemini API: `POST {base}/v1beta/models/{id}:streamGenerateContent?alt=sse`.
//!
//! Read in this order: `config` (where to and who calls), `generation` (what a model of this name can do), `encode` (a
//! request as bytes), `wire` (the vendor's names), `decode` (the stream), `error` (refusals). What the vendor
//! documents and what was found out besides stands in `docs/providers/google.md`. Vertex AI speaks the same
//! protocol at another address, with another way to sign in.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::GoogleProvider;
//! let provider = GoogleProvider::new();
//! assert_eq!(provider.provider_id(), "google");
//! assert!(provider.check(&ModelConfig::google("gemini-2.5-flash", "Flash", "key")).is_ok());
//! assert!(provider.check(&ModelConfig::google("gemini-2.5-flash", "Flash", "")).is_err());
//! ```

mod config;
mod decode;
mod encode;
mod error;
mod generation;
mod wire;

use agent_core::{ModelRequest, ProviderError};

use crate::http_provider::http_provider;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

#[cfg(feature = "vertex")]
pub(crate) use config::{API_KEY, METHOD, segment, streamed};
pub(crate) use decode::Decoder;
pub(crate) use encode::body;
pub(crate) use error::rejected;

/// The protocol: how a request is written and how its answer is read. It holds no connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Google;

impl Protocol for Google {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model)?;
        let headers = config::headers(request)?;
        let body = body(request)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::SseOrJson
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(Decoder::new(request))
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        rejected(request, rejection)
    }
}

http_provider!(
    /// Calls the models of Google's Gemini API (REQ-120).
    GoogleProvider,
    Google,
    "google"
);
