//! Ollama's native chat protocol: `POST {base}/api/chat`, answered with one JSON value per line.
//!
//! API: <https://github.com/ollama/ollama/blob/main/docs/api.md>; `docs/providers/ollama.md` lists the members that are sent
//! and read. The default base address is `http://localhost:11434`. The request sets `num_ctx` to the model's context window,
//! because the server otherwise uses a small window and truncates the conversation without an error.
//!
//! Requests that Ollama cannot express, such as a forced tool call or an image URL, fail before anything is sent. The server
//! decides how long a model stays loaded; a [request hook](agent_core::RequestOptions::request_hook) can add `keep_alive`.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::OllamaProvider;
//! let provider = OllamaProvider::new();
//! assert_eq!(provider.provider_id(), "ollama");
//! provider.check(&ModelConfig::default())?;
//! # Ok::<(), agent_core::ProviderError>(())
//! ```

mod decode;
mod encode;
mod wire;

use agent_core::{ErrorKind, ModelRequest, ProviderError};

use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

/// The base address for models without a `base_url`.
pub const DEFAULT_BASE_URL: &str = "http://localhost:11434";

/// The protocol: encodes requests and decodes responses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ollama;

crate::http_provider::http_provider! {
    /// A provider for the models of an Ollama server. Clones share one connection pool.
    OllamaProvider, Ollama, "ollama"
}

impl Protocol for Ollama {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        encode::request(request)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(decode::Decoder::new(request))
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        let error = crate::rejection::read(request, rejection);
        if error.kind() == ErrorKind::ModelNotFound {
            return error.map_context(|c| {
                c.advice = Some(format!("fetch it with `ollama pull {}`", request.model.id));
            });
        }
        error
    }
}
