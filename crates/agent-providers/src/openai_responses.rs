//! OpenAI Responses, `POST {base}/responses`, always streamed, and compatible servers.
//!
//! Suggested reading order: `config` (endpoint and credentials), `encode` (request body), `wire` (the vendor's types),
//! `decode` (event stream), `marks` (data stored to send an item back), `error` (error responses).
//! `docs/providers/openai-responses.md` describes the documented and the observed behaviour of the API.
//!
//! The vendor stores nothing (`store` is false): every request contains the whole conversation, and reasoning is sent back
//! in its encrypted form.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::OpenAiResponsesProvider;
//! let provider = OpenAiResponsesProvider::new();
//! assert_eq!(provider.provider_id(), "openai_responses");
//! assert!(provider.check(&ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", "sk-x")).is_ok());
//! let error = provider.check(&ModelConfig::openai_responses("gpt-5.5", "GPT-5.5", "")).unwrap_err();
//! assert!(error.to_string().contains("OPENAI_API_KEY"));
//! ```

mod config;
mod decode;
mod encode;
mod error;
mod local_tools;
mod marks;
mod search;
#[cfg(feature = "openai-responses-ws")]
mod socket;
mod wire;

use std::time::Duration;

use agent_core::{ModelConfig, ModelRequest, ProviderError, ToolSearchForm};

use crate::cache::OpenAiCache;
use crate::http_provider::http_provider;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

use decode::Decoder;
pub(crate) use encode::body;
#[cfg(feature = "openai-responses-ws")]
pub use socket::OpenAiResponsesWsProvider;

/// The protocol: encodes requests and decodes responses. It holds no connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenAiResponses;

impl Protocol for OpenAiResponses {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model)?;
        let headers = config::headers(request)?;
        let body = body(request)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(Decoder::new(request))
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        encode::cache(request).map(OpenAiCache::lifetime)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        search::tool_search(model)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        crate::rejection::read(request, rejection)
    }
}

http_provider!(
    /// A provider for OpenAI Responses and compatible servers. Clones share one connection pool.
    OpenAiResponsesProvider,
    OpenAiResponses,
    "openai_responses"
);
