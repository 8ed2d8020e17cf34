//! Google's Gemini API: `POST {base}/v1beta/models/{id}:streamGenerateContent?alt=sse`.
//!
//! Suggested reading order: `config` (endpoint and credentials), `generation` (capabilities by model name), `encode`
//! (request body), `wire` (the vendor's types), `decode` (stream), `error` (error responses). `docs/providers/google.md`
//! describes the documented and the observed behaviour of the API. Vertex AI uses the same protocol with other addresses
//! and authentication.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::GoogleProvider;
//! let provider = GoogleProvider::new();
//! assert_eq!(provider.provider_id(), "google");
//! assert!(provider.check(&ModelConfig::google("gemini-2.5-flash", "Flash", "key")).is_ok());
//! assert!(provider.check(&ModelConfig::google("gemini-2.5-flash", "Flash", "")).is_err());
//! ```

mod citation;
mod computer;
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
#[cfg(feature = "vertex")]
pub(crate) use error::{advised, in_stream, is_of_google};

/// The protocol: encodes requests and decodes responses. It holds no connection.
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
    /// A provider for Google's Gemini API. Clones share one connection pool.
    GoogleProvider,
    Google,
    "google"
);
