//! OpenAI Responses, `POST {base}/responses`, always streamed, and everybody who speaks it.
//!
//! Read in this order: `config` (where to and who calls), `encode` (a request as bytes), `wire` (the vendor's names),
//! `decode` (the event stream), `marks` (what is kept of an item to send it back), `error` (refusals). What the vendor
//! documents and what was found out besides stands in `docs/providers/openai-responses.md`.
//!
//! Nothing is left with the vendor (`store` is false): every request holds the whole conversation, and reasoning goes
//! back in its encrypted form.
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
mod marks;
mod wire;

use agent_core::{ModelRequest, ProviderError};

use crate::http_provider::http_provider;
use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

use decode::Decoder;
pub(crate) use encode::body;

/// The protocol: how a request is written and how its answer is read. It holds no connection.
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

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        crate::rejection::read(request, rejection)
    }
}

http_provider!(
    /// Calls models by OpenAI Responses (REQ-123).
    OpenAiResponsesProvider,
    OpenAiResponses,
    "openai_responses"
);
