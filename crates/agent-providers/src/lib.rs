//! Model providers for Looptree: one protocol, one folder, the same file names everywhere.
//!
//! Encoders and decoders are pure; [`Transport`] is the only place that opens sockets. [`ProviderRegistry`] finds the
//! provider of a model by its protocol, and [`agent`](agent()) gives an agent with all that are built in.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::ProviderRegistry;
//! let registry = ProviderRegistry::default();
//! # #[cfg(feature = "ollama")]
//! assert_eq!(registry.provider_id_for(&ModelConfig::default()), "ollama");
//! ```
//!
//! # Features
//!
//! None is on by default.
//!
//! | name | what |
//! |---|---|
//! | `anthropic` | Anthropic Messages |
//! | `openai-chat` | OpenAI Chat Completions, and the servers that speak it |
//! | `ollama` | Ollama's native chat |
//! | `tls-rustls` | TLS by rustls, with the operating system's roots |
//! | `tls-native` | TLS by the operating system |
//!
//! Without a TLS feature only `http://` addresses can be reached.

mod agent;
#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "http-protocols")]
mod call_ids;
pub mod catalogue;
#[cfg(feature = "http-protocols")]
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

#[doc(inline)]
pub use agent::agent;
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
