//! OpenAI Chat Completions, `POST {base}/chat/completions`, and compatible servers.
//!
//! API: <https://platform.openai.com/docs/api-reference/chat>; `docs/providers/openai-chat.md` lists the members that are sent
//! and read. Every request asks for a stream; a response that is one JSON body is accepted as well. A table describes the
//! differences between vendors. It is looked up by [`ModelConfig::provider`](agent_core::ModelConfig::provider) and the
//! host of [`ModelConfig::base_url`](agent_core::ModelConfig::base_url); every field that is set in the model's
//! [`ChatDialect`](agent_core::ChatDialect) takes precedence.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::OpenAiChatProvider;
//! let provider = OpenAiChatProvider::new();
//! assert_eq!(provider.provider_id(), "openai");
//! provider.check(&ModelConfig::local("http://localhost:8080/v1", "qwen3", ""))?;
//! let error = provider.check(&ModelConfig::openai("gpt-5", "GPT-5", "")).unwrap_err();
//! assert!(error.to_string().contains("OPENAI_API_KEY"));
//! # Ok::<(), agent_core::ProviderError>(())
//! ```

mod calls;
mod decode;
mod dialect;
mod encode;
mod options;
mod usage;
mod wire;

use agent_core::{ModelRequest, ProviderError};

use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

/// The protocol: encodes requests and decodes responses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenAiChat;

crate::http_provider::http_provider! {
    /// A provider for OpenAI Chat Completions and compatible servers. Clones share one connection pool.
    OpenAiChatProvider, OpenAiChat, "openai"
}

/// Another name for [`OpenAiChatProvider`].
pub type OpenAiCompatProvider = OpenAiChatProvider;

impl Protocol for OpenAiChat {
    fn encode(&self, request: &ModelRequest) -> Result<HttpRequest, ProviderError> {
        encode::request(request)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn Decode> {
        Box::new(decode::Decoder::new(request))
    }

    fn cache_lifetime(&self, request: &ModelRequest) -> Option<std::time::Duration> {
        encode::cache_lifetime(request)
    }

    fn rejected(&self, request: &ModelRequest, rejection: &Rejection<'_>) -> ProviderError {
        crate::rejection::read(request, rejection)
    }
}
