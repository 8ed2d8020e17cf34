//! Ollama's native chat, `POST {base}/api/chat`, one JSON value a line.
//!
//! API: <https://github.com/ollama/ollama/blob/main/docs/api.md>; what is sent and read stands in
//! `docs/providers/ollama.md`. Without a base address the server of this machine
//! is meant, `http://localhost:11434`. The context window of the model is sent as `num_ctx`: left to itself the
//! server takes a small one and cuts the conversation in silence.
//!
//! What Ollama has no word for is refused before anything is sent: a demand to call a tool, a picture by address.
//! How long a model stays loaded is the server's setting; a [request hook](agent_core::ModelRequest::request_hook)
//! can add `keep_alive`.
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

/// Where a server is when the model does not say.
pub const DEFAULT_BASE_URL: &str = "http://localhost:11434";

/// The protocol: how a request is written and how its answer is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ollama;

crate::http_provider::http_provider! {
    /// Calls models of an Ollama server (D34).
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
