//! Model configuration: protocol, address, key, limits, capabilities and prices.
//!
//! A [`ModelConfig`] is data that the caller owns. It contains the key, so it has no serialized form, and its `Debug`
//! output shows neither the key nor header values.
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
    /// The Anthropic Messages API.
    AnthropicMessages,
    /// The OpenAI Chat Completions API, which most other servers speak as well.
    #[serde(rename = "openai_completions", alias = "open_ai_completions")]
    OpenAiCompletions,
    /// The OpenAI Responses API.
    #[serde(rename = "openai_responses", alias = "open_ai_responses")]
    OpenAiResponses,
    /// The OpenAI Responses API on Azure.
    #[serde(rename = "azure_openai_responses", alias = "azure_open_ai_responses")]
    AzureOpenAiResponses,
    /// The Google Gemini API.
    GoogleGenerativeAi,
    /// The Google Vertex AI API.
    GoogleVertex,
    /// The AWS Bedrock ConverseStream API.
    BedrockConverseStream,
    /// Ollama's native `/api/chat` API.
    OllamaChat,
}

impl ApiProtocol {
    /// Returns the name of the protocol in session files and messages.
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

    /// Returns the cargo feature of `looptree` and `agent-providers` that contains its provider.
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

    /// Returns the id of the provider that serves this protocol, for example `ollama`.
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

/// Controls whether the model must, may or must not call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides whether to call a tool.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call this tool.
    Tool(String),
}

/// The required format of the answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text without a required format.
    #[default]
    Text,
    /// Any JSON object, without a schema.
    JsonObject,
    /// JSON that conforms to a schema.
    JsonSchema {
        /// The name of the schema: letters, digits, `_` and `-`, at most 64 characters.
        name: String,
        /// The JSON schema of the answer.
        schema: serde_json::Value,
        /// Whether the provider must enforce the schema.
        strict: bool,
    },
}
