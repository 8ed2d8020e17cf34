//! Model providers for Looptree.

#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "http-protocols")]
mod call_ids;
pub mod catalogue;
#[cfg(feature = "http-protocols")]
#[cfg_attr(
    not(all(feature = "anthropic", feature = "openai-chat")),
    allow(dead_code, reason = "the rules are for all protocols; each uses its part of them")
)]
mod handoff;
#[cfg(feature = "http-protocols")]
mod http_provider;
#[cfg(feature = "http-protocols")]
mod json;
#[cfg(feature = "http-protocols")]
mod keys;
#[cfg(feature = "http-protocols")]
mod lines;
#[cfg(feature = "ollama")]
pub mod ollama;
#[cfg(feature = "openai-chat")]
pub mod openai_chat;
#[cfg(feature = "http-protocols")]
mod protocol;
pub mod registry;
#[cfg(feature = "http-protocols")]
mod rejection;
#[cfg(feature = "http-protocols")]
mod request;
#[cfg(feature = "http-protocols")]
mod sse;
#[cfg(feature = "http-protocols")]
mod surrogates;
#[cfg(feature = "http-protocols")]
pub mod transport;

#[cfg(feature = "anthropic")]
#[doc(inline)]
pub use anthropic::AnthropicProvider;
#[doc(inline)]
pub use catalogue::{Catalogue, ModelFacts};
#[cfg(feature = "ollama")]
#[doc(inline)]
pub use ollama::OllamaProvider;
#[cfg(feature = "openai-chat")]
#[doc(inline)]
pub use openai_chat::{OpenAiChatProvider, OpenAiCompatProvider};
#[doc(inline)]
pub use registry::ProviderRegistry;
#[cfg(feature = "http-protocols")]
#[doc(inline)]
pub use transport::{Transport, TransportConfig};
