//! Which model to call and how: protocol, address, key, limits, abilities, price.
//!
//! A [`ModelConfig`] is data that the caller owns. It holds the key, so it has no serialised form and its `Debug`
//! shows neither key nor header values.
//!
//! ```
//! use agent_core::{ApiProtocol, ModelConfig};
//! let model = ModelConfig::anthropic("claude-sonnet-4-6", "Claude Sonnet", "sk-ant-secret");
//! assert_eq!(model.api, ApiProtocol::AnthropicMessages);
//! assert!(!format!("{model:?}").contains("sk-ant-secret"));
//! assert_eq!(ModelConfig::default().id, "qwen3-coder:30b");
//! ```

mod cache;
mod config;
mod dialect;
mod prices;
mod secret;
mod thinking;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use cache::{CacheConfig, CacheStrategy};
pub use config::{AnthropicAuth, ModelConfig};
pub use dialect::{ChatDialect, ReasoningField, ThinkingFormat};
pub use prices::{CostConfig, CostTier};
pub use secret::Secret;
pub use thinking::{ThinkingBudgets, ThinkingForm, ThinkingLevel};

/// The wire protocol of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApiProtocol {
    /// Anthropic Messages.
    AnthropicMessages,
    /// OpenAI Chat Completions, and everybody who speaks it.
    #[serde(rename = "openai_completions", alias = "open_ai_completions")]
    OpenAiCompletions,
    /// OpenAI Responses.
    #[serde(rename = "openai_responses", alias = "open_ai_responses")]
    OpenAiResponses,
    /// OpenAI Responses on Azure.
    #[serde(rename = "azure_openai_responses", alias = "azure_open_ai_responses")]
    AzureOpenAiResponses,
    /// Google Gemini.
    GoogleGenerativeAi,
    /// Google Vertex AI.
    GoogleVertex,
    /// AWS Bedrock ConverseStream.
    BedrockConverseStream,
    /// Ollama's native `/api/chat`.
    OllamaChat,
}

impl ApiProtocol {
    /// The name in session files and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic_messages",
            Self::OpenAiCompletions => "openai_completions",
            Self::OpenAiResponses => "openai_responses",
            Self::AzureOpenAiResponses => "azure_openai_responses",
            Self::GoogleGenerativeAi => "google_generative_ai",
            Self::GoogleVertex => "google_vertex",
            Self::BedrockConverseStream => "bedrock_converse_stream",
            Self::OllamaChat => "ollama_chat",
        }
    }

    /// The cargo feature of `looptree` and `agent-providers` that brings its provider.
    #[must_use]
    pub fn feature(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiCompletions => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::AzureOpenAiResponses => "azure",
            Self::GoogleGenerativeAi => "google",
            Self::GoogleVertex => "vertex",
            Self::BedrockConverseStream => "bedrock",
            Self::OllamaChat => "ollama",
        }
    }

    /// The provider id of REQ-186; `ollama` for Ollama.
    #[must_use]
    pub fn provider_id(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "anthropic",
            Self::OpenAiCompletions => "openai",
            Self::OpenAiResponses => "openai_responses",
            Self::AzureOpenAiResponses => "azure_openai",
            Self::GoogleGenerativeAi => "google",
            Self::GoogleVertex => "google_vertex",
            Self::BedrockConverseStream => "bedrock",
            Self::OllamaChat => "ollama",
        }
    }
}

impl fmt::Display for ApiProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the model must, may or must not call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No call.
    None,
    /// At least one call.
    Required,
    /// A call of this tool.
    Tool(String),
}

/// The form that the answer must have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// A name for the schema: letters, digits, `_` and `-`, at most 64.
        name: String,
        /// The schema.
        schema: serde_json::Value,
        /// Whether the provider must enforce it.
        strict: bool,
    },
}
