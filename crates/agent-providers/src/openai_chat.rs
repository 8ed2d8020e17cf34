//! OpenAI Chat Completions, `POST {base}/chat/completions`, and everybody who speaks it.
//!
//! API: <https://platform.openai.com/docs/api-reference/chat>; what is sent and read stands in
//! `docs/providers/openai-chat.md`. Answers are always streamed; a server that answers
//! with one JSON body all the same is understood. What vendors want to be different is data: it is found out from
//! [`ModelConfig::provider`](agent_core::ModelConfig::provider) and the host of
//! [`ModelConfig::base_url`](agent_core::ModelConfig::base_url), and each field of a
//! [`ChatDialect`](agent_core::ChatDialect) that is set wins over it.
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
mod wire;

use agent_core::{ProviderError, StreamConfig};

use crate::protocol::{Decode, Framing, HttpRequest, Protocol, Rejection};

/// The protocol: how a request is written and how its answer is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenAiChat;

crate::http_provider::http_provider! {
    /// Calls models by OpenAI Chat Completions (REQ-041).
    OpenAiChatProvider, OpenAiChat, "openai"
}

/// The name that REQ-041 gives to [`OpenAiChatProvider`].
pub type OpenAiCompatProvider = OpenAiChatProvider;

impl Protocol for OpenAiChat {
    fn encode(&self, request: &StreamConfig) -> Result<HttpRequest, ProviderError> {
        encode::request(request)
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, request: &StreamConfig) -> Box<dyn Decode> {
        Box::new(decode::Decoder::new(request))
    }

    fn rejected(&self, request: &StreamConfig, rejection: &Rejection<'_>) -> ProviderError {
        crate::rejection::read(request, rejection)
    }
}
