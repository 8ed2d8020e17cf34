//! OpenAI Responses on Azure: the same requests and responses with other addresses and authentication.
//!
//! [`ModelConfig::base_url`](agent_core::ModelConfig::base_url) may be the address of a resource, its v1 address or the
//! address of a deployment. See `docs/providers/azure.md`.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::AzureOpenAiProvider;
//! let provider = AzureOpenAiProvider::new();
//! assert_eq!(provider.provider_id(), "azure_openai");
//! assert!(provider.check(&ModelConfig::azure("https://example.openai.azure.com", "gpt-5.5", "0a1b")).is_ok());
//! let error = provider.check(&ModelConfig::azure("https://example.openai.azure.com", "gpt-5.5", "")).unwrap_err();
//! assert!(error.to_string().contains("AZURE_OPENAI_API_KEY"));
//! ```

mod config;
mod error;

use std::time::Duration;

use agent_core::{ModelConfig, ModelRequest, ProviderError, ToolSearchForm};

use crate::http_provider::http_provider;
use crate::openai_responses::{OpenAiResponses, body};
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

/// The protocol: encodes requests and decodes responses. It holds no connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Azure;

impl Protocol for Azure {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(&request.model)?;
        let headers = config::headers(request)?;
        let body = body(request)?;
        Ok(HttpRequest { url, headers, body })
    }

    fn framing(&self) -> Framing {
        OpenAiResponses.framing()
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        OpenAiResponses.decoder(request)
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        OpenAiResponses.cache_lifetime(request)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        OpenAiResponses.tool_search(model)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        error::rejected(request, rejection)
    }
}

http_provider!(
    /// A provider for OpenAI Responses deployments on Azure. Clones share one connection pool.
    AzureOpenAiProvider,
    Azure,
    "azure_openai"
);
