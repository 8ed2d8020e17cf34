//! Anthropic Messages: `POST /v1/messages`, always streamed.
//!
//! Suggested reading order: `config` (endpoint and credentials), `encode` (request body), `wire` (the vendor's types),
//! `decode` (event stream), `error` (error responses). `docs/providers/anthropic.md` describes the documented and the
//! observed behaviour of the API.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::AnthropicProvider;
//! let provider = AnthropicProvider::new();
//! assert_eq!(provider.provider_id(), "anthropic");
//! assert!(provider.check(&ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "sk-ant-x")).is_ok());
//! assert!(provider.check(&ModelConfig::anthropic("claude-sonnet-4-6", "Sonnet", "")).is_err());
//! ```

mod citation;
mod config;
mod decode;
mod encode;
mod error;
mod extras;
mod search;
mod server_tools;
mod version;
mod wire;

use std::time::Duration;

use agent_core::{ModelConfig, ModelRequest, ProviderError, ToolSearchForm};

use crate::http_provider::http_provider;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

#[cfg(feature = "vertex")]
pub(crate) use decode::Decoder;
#[cfg(feature = "vertex")]
pub(crate) use encode::{Named, body};
#[cfg(feature = "vertex")]
pub(crate) use error::rejected;
pub(crate) use search::tool_search;
#[cfg(feature = "vertex")]
pub(crate) use server_tools::add_betas;

/// The Messages protocol: encodes requests and decodes responses. It holds no connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Anthropic;

impl Protocol for Anthropic {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model)?;
        let headers = config::headers(request)?;
        let body = encode::body(request, encode::Named::InBody)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(decode::Decoder::new(request))
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        cache_lifetime(request)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        tool_search(model)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        error::rejected(request, rejection)
    }
}

/// Returns how long the vendor keeps what a request caches.
pub(crate) fn cache_lifetime(request: &ModelRequest) -> Option<Duration> {
    let config = &request.options.cache_config;
    encode::lifetimes(request).shortest(config).filter(|_| request.model.prompt_cache)
}

http_provider!(
    /// A provider for Anthropic's models and for other servers that implement the Messages protocol. Clones share one
    /// connection pool.
    AnthropicProvider,
    Anthropic,
    "anthropic"
);
