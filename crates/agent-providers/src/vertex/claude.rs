//! Claude on Vertex AI: Anthropic's protocol, with the model in the URL and the version of the API in the body.

use std::sync::Arc;
use std::time::Duration;

use agent_core::{Completion, EventSink, ModelConfig, ModelRequest, ProviderError, ToolSearchForm};

use super::authorise;
use super::config::{self, Publisher};
use super::token::Tokens;
use crate::http_provider::http_provider;
use crate::protocol::{Decode, Fetching, Flow, Frame, Framing, HttpRequest, Protocol, Rejection};
use crate::{anthropic, google};

/// The version of Anthropic's API on Vertex AI, which the body names.
const VERSION: &str = "vertex-2023-10-16";

/// The protocol. It caches the tokens that it has fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct VertexClaude {
    tokens: Arc<Tokens>,
}

impl Protocol for VertexClaude {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        let url = config::endpoint(request, Publisher::Anthropic)?;
        let mut headers = config::headers(request)?;
        anthropic::add_betas(&mut headers, request);
        let body = anthropic::body(request, anthropic::Named::InUrl(VERSION))?;
        Ok(HttpRequest { url, headers, body })
    }

    fn authorise<'r>(&'r self, request: &'r ModelRequest) -> Option<Fetching<'r>> {
        authorise(&self.tokens, request)
    }

    fn framing(&self) -> Framing {
        Framing::SseOrJson
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(Decoder(anthropic::Decoder::new(request)))
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<Duration> {
        anthropic::cache_lifetime(request)
    }

    fn tool_search(&self, model: &ModelConfig) -> ToolSearchForm {
        anthropic::tool_search(model)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        if google::is_of_google(rejection.body) {
            return google::rejected(request, rejection);
        }
        google::advised(anthropic::rejected(request, rejection), request)
    }
}

/// Anthropic's decoder, which also classifies errors of Google's form.
struct Decoder(anthropic::Decoder);

impl Decode for Decoder {
    fn push(&mut self, frame: Frame<'_>, sink: &mut EventSink<'_>) -> Result<Flow, ProviderError> {
        self.0.push(frame, sink).map_err(|error| classified(error, frame.data))
    }

    fn whole(&mut self, body: &str, sink: &mut EventSink<'_>) -> Result<(), ProviderError> {
        self.0.whole(body, sink).map_err(|error| classified(error, body))
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    fn ends_with_body(&self) -> bool {
        self.0.ends_with_body()
    }

    fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<Completion, ProviderError> {
        self.0.finish(sink)
    }
}

/// Returns the error that Google reported instead of a part of the reply, or the given error if it did not.
fn classified(error: ProviderError, text: &str) -> ProviderError {
    if google::is_of_google(text.as_bytes()) { google::in_stream(text) } else { error }
}

http_provider!(
    /// A provider for Claude models on Vertex AI. Clones share one connection pool and the cached tokens, which are fetched
    /// over separate connections.
    AnthropicVertexProvider,
    VertexClaude,
    "anthropic_vertex"
);
