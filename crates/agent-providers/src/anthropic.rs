//! Anthropic Messages: `POST /v1/messages`, always streamed.
//!
//! Read in this order: `config` (where to and who calls), `encode` (a request as bytes), `wire` (the vendor's names),
//! `decode` (the event stream), `error` (refusals). What the vendor documents and what was found out besides stands in
//! `docs/providers/anthropic.md`.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::AnthropicProvider;
//! let provider = AnthropicProvider::new();
//! assert_eq!(provider.provider_id(), "anthropic");
//! assert!(provider.check(&ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "sk-ant-x")).is_ok());
//! assert!(provider.check(&ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "")).is_err());
//! ```

mod config;
mod decode;
mod encode;
mod error;
mod wire;

use agent_core::{ModelRequest, ProviderError};

use crate::http_provider::http_provider;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

/// The Messages protocol: how a request is written and how its answer is read. It holds no connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Anthropic;

impl Protocol for Anthropic {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model)?;
        let headers = config::headers(request)?;
        let body = encode::body(request)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(decode::Decoder::new(request))
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        error::rejected(request, rejection)
    }
}

http_provider!(
    /// Calls Anthropic's models, and everybody else who speaks the Messages protocol (REQ-040).
    AnthropicProvider,
    Anthropic,
    "anthropic"
);
