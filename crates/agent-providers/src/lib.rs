//! Model providers for Looptree, one per API protocol, over one connection pool per process.
//!
//! Each protocol consists of a pure encoder and a decoder without I/O; only [`transport`] sends requests. Responses are
//! always streamed. A provider sends every request once, because the agent's loop does the retries, and reports a reply as
//! complete only after the vendor has sent its terminal event. [`ProviderRegistry`] selects the provider by the model's
//! protocol. [`catalogue`] holds the limits and prices of common models. [`agent`](agent()) combines both.
//!
//! ```
//! use agent_core::{ModelConfig, StreamProvider};
//! use agent_providers::ProviderRegistry;
//! let registry = ProviderRegistry::default();
//! // Checks the protocol, the key and the address without sending anything.
//! match registry.check(&ModelConfig::openai("gpt-5", "GPT-5", "")) {
//!     Ok(()) => println!("ready"),
//!     Err(error) => println!("{error}"), // names the missing feature or the usual source of the key
//! }
//! ```
//!
//! # Features
//!
//! No feature is enabled by default. The registry and the catalogue are always available.
//!
//! | feature | effect |
//! |---|---|
//! | `anthropic` | `AnthropicProvider`: Anthropic Messages |
//! | `openai-chat` | `OpenAiChatProvider`: OpenAI Chat Completions and compatible servers |
//! | `openai-responses` | `OpenAiResponsesProvider`: OpenAI Responses and compatible servers |
//! | `openai-responses-ws` | `OpenAiResponsesWsProvider`: OpenAI Responses over WebSocket; enables `openai-responses` |
//! | `azure` | `AzureOpenAiProvider`: OpenAI Responses on Azure; enables `openai-responses` |
//! | `ollama` | `OllamaProvider`: Ollama's native chat |
//! | `bedrock` | `BedrockProvider`: AWS Bedrock ConverseStream, through the AWS SDK |
//! | `bedrock-config` | reads Bedrock's credentials and region from the standard AWS sources: environment, profiles, roles |
//! | `remote` | `RemoteProvider`: models behind your own server, which holds the API keys |
//! | `google` | `GoogleProvider`: Google's Gemini API |
//! | `vertex` | `VertexProvider` and `AnthropicVertexProvider`: Gemini and Claude on Vertex AI, with Google Cloud authentication; enables `anthropic` and `google` |
//! | `tls-rustls` | `https://` through rustls with aws-lc and the root certificates of the operating system |
//! | `tls-native` | `https://` through the TLS library of the operating system |
//! | `http-protocols` | code that all protocols share; each protocol enables it |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(
        feature = "anthropic",
        feature = "bedrock",
        feature = "openai-chat",
        feature = "azure",
        feature = "ollama",
        feature = "google"
    )),
    allow(dead_code, reason = "a build with some of the protocols uses a part of what they share")
)]

mod agent;
#[cfg(any(feature = "openai-chat", feature = "openai-responses"))]
mod annotation;
#[cfg(any(
    feature = "anthropic",
    feature = "bedrock",
    feature = "google",
    feature = "openai-chat",
    feature = "ollama"
))]
mod answer_format;
#[cfg(feature = "anthropic")]
pub mod anthropic;
#[cfg(feature = "azure")]
pub mod azure;
#[cfg(feature = "bedrock")]
pub mod bedrock;
#[cfg(any(feature = "openai-chat", feature = "ollama", feature = "google"))]
mod blocks;
#[cfg(feature = "http-protocols")]
mod body_buffer;
#[cfg(any(
    feature = "anthropic",
    feature = "bedrock",
    feature = "google",
    feature = "ollama",
    feature = "openai-chat",
    feature = "openai-responses"
))]
#[cfg_attr(
    not(any(
        feature = "anthropic",
        feature = "bedrock",
        feature = "openai-chat",
        feature = "openai-responses"
    )),
    allow(dead_code, reason = "the other protocols have no lifetimes of caches")
)]
mod cache;
#[cfg(feature = "http-protocols")]
mod call_ids;
pub mod catalogue;
#[cfg(any(feature = "anthropic", feature = "bedrock"))]
mod claude;
#[cfg(feature = "bedrock")]
pub mod eventstream;
#[cfg(fuzzing)]
pub mod fuzzing;
#[cfg(feature = "google")]
pub mod google;
#[cfg(feature = "http-protocols")]
#[cfg_attr(
    not(all(feature = "anthropic", feature = "openai-chat")),
    allow(dead_code, reason = "the rules are for all protocols; each uses its part of them")
)]
mod handoff;
#[cfg(feature = "http-protocols")]
#[allow(
    unused_imports,
    unused_macros,
    reason = "a build with nothing but `remote` or `bedrock` has no use for it"
)]
mod http_provider;
#[cfg(feature = "http-protocols")]
mod json;
#[cfg(feature = "http-protocols")]
mod lines;
#[cfg(any(
    feature = "anthropic",
    feature = "bedrock",
    feature = "openai-chat",
    feature = "openai-responses"
))]
mod marks;
#[cfg(feature = "http-protocols")]
pub mod models;
#[cfg(feature = "ollama")]
pub mod ollama;
#[cfg(feature = "openai-chat")]
pub mod openai_chat;
#[cfg(feature = "openai-responses")]
pub mod openai_responses;
#[cfg(feature = "http-protocols")]
#[cfg_attr(
    not(all(feature = "anthropic", feature = "openai-chat")),
    allow(dead_code, reason = "the rules are for all protocols; each uses its part of them")
)]
mod pictures;
#[cfg(any(feature = "openai-chat", feature = "openai-responses", feature = "google"))]
#[cfg_attr(
    not(feature = "openai-chat"),
    allow(dead_code, reason = "the readings are for all protocols; each uses its part of them")
)]
mod prompt_usage;
#[cfg(feature = "http-protocols")]
mod protocol;
pub mod rate_limit;
pub mod registry;
#[cfg(feature = "http-protocols")]
mod rejection;
#[cfg(feature = "remote")]
pub mod remote;
#[cfg(feature = "http-protocols")]
mod request;
#[cfg(feature = "http-protocols")]
#[cfg_attr(
    not(all(feature = "anthropic", feature = "openai-responses", feature = "google")),
    allow(dead_code, unused_imports, reason = "the module is for all protocols; each uses its part of it")
)]
mod server_tools;
#[cfg(any(
    feature = "anthropic",
    feature = "bedrock",
    feature = "openai-chat",
    feature = "openai-responses",
    feature = "remote"
))]
mod shape;
#[cfg(feature = "http-protocols")]
mod sse;
#[cfg(feature = "http-protocols")]
mod surrogates;
#[cfg(feature = "http-protocols")]
mod tap;
#[cfg(any(
    feature = "anthropic",
    feature = "bedrock",
    feature = "google",
    feature = "ollama",
    feature = "openai-chat",
    feature = "openai-responses"
))]
#[cfg_attr(
    not(all(feature = "openai-chat", feature = "bedrock", feature = "google")),
    allow(dead_code, reason = "the counts are for all protocols; each uses its part of them")
)]
mod token_count;
#[cfg(feature = "http-protocols")]
mod tool_schema;
#[cfg(feature = "http-protocols")]
pub mod transport;
#[cfg(feature = "http-protocols")]
mod vendor_context;
#[cfg(feature = "vertex")]
pub mod vertex;

#[doc(inline)]
pub use agent::agent;
#[cfg(feature = "anthropic")]
#[doc(inline)]
pub use anthropic::AnthropicProvider;
#[cfg(feature = "azure")]
#[doc(inline)]
pub use azure::AzureOpenAiProvider;
#[cfg(feature = "bedrock")]
#[doc(inline)]
pub use bedrock::BedrockProvider;
#[doc(inline)]
pub use catalogue::{Catalogue, ModelFacts};
#[cfg(feature = "google")]
#[doc(inline)]
pub use google::GoogleProvider;
#[cfg(feature = "ollama")]
#[doc(inline)]
pub use ollama::OllamaProvider;
#[cfg(feature = "openai-chat")]
#[doc(inline)]
pub use openai_chat::{OpenAiChatProvider, OpenAiCompatProvider};
#[cfg(feature = "openai-responses")]
#[doc(inline)]
pub use openai_responses::OpenAiResponsesProvider;
#[cfg(feature = "openai-responses-ws")]
#[doc(inline)]
pub use openai_responses::OpenAiResponsesWsProvider;
#[doc(inline)]
pub use rate_limit::{RateLimit, RateLimited};
#[doc(inline)]
pub use registry::ProviderRegistry;
#[cfg(feature = "remote")]
#[doc(inline)]
pub use remote::RemoteProvider;
#[cfg(feature = "http-protocols")]
#[doc(inline)]
pub use transport::{Transport, TransportConfig};
#[cfg(feature = "vertex")]
#[doc(inline)]
pub use vertex::{AnthropicVertexProvider, VertexProvider};
