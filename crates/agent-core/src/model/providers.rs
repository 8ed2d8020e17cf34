//! Model strings such as `anthropic/claude-sonnet-5-5`, and what is known about the providers that they name.

use std::str::FromStr;

use super::{ApiProtocol, ModelConfig};

/// A provider that a model string can name.
struct KnownProvider {
    name: &'static str,
    /// The environment variable that usually holds the key.
    key: Option<&'static str>,
    protocol: Option<ApiProtocol>,
}

const fn chat(name: &'static str, key: &'static str) -> KnownProvider {
    KnownProvider { name, key: Some(key), protocol: None }
}

const fn native(name: &'static str, key: &'static str, protocol: ApiProtocol) -> KnownProvider {
    KnownProvider { name, key: Some(key), protocol: Some(protocol) }
}

const PROVIDERS: &[KnownProvider] = &[
    native("anthropic", "ANTHROPIC_API_KEY", ApiProtocol::AnthropicMessages),
    chat("openai", "OPENAI_API_KEY"),
    native("openai_responses", "OPENAI_API_KEY", ApiProtocol::OpenAiResponses),
    native("azure", "AZURE_OPENAI_API_KEY", ApiProtocol::AzureOpenAiResponses),
    native("google", "GEMINI_API_KEY", ApiProtocol::GoogleGenerativeAi),
    KnownProvider { name: "google_vertex", key: None, protocol: Some(ApiProtocol::GoogleVertex) },
    KnownProvider { name: "anthropic_vertex", key: None, protocol: Some(ApiProtocol::AnthropicVertex) },
    native("bedrock", "AWS_BEARER_TOKEN_BEDROCK", ApiProtocol::BedrockConverseStream),
    KnownProvider { name: "ollama", key: None, protocol: Some(ApiProtocol::OllamaChat) },
    KnownProvider { name: "local", key: None, protocol: None },
    chat("openrouter", "OPENROUTER_API_KEY"),
    chat("groq", "GROQ_API_KEY"),
    chat("cerebras", "CEREBRAS_API_KEY"),
    chat("xai", "XAI_API_KEY"),
    chat("vercel", "AI_GATEWAY_API_KEY"),
    chat("zai", "ZAI_API_KEY"),
    chat("mistral", "MISTRAL_API_KEY"),
    chat("minimax", "MINIMAX_API_KEY"),
    chat("huggingface", "HF_TOKEN"),
    chat("deepseek", "DEEPSEEK_API_KEY"),
    chat("moonshot", "MOONSHOT_API_KEY"),
    chat("qwen", "DASHSCOPE_API_KEY"),
    chat("together", "TOGETHER_API_KEY"),
    chat("fireworks", "FIREWORKS_API_KEY"),
    chat("perplexity", "PERPLEXITY_API_KEY"),
    chat("nvidia", "NVIDIA_API_KEY"),
];

fn known(provider: &str) -> Option<&'static KnownProvider> {
    let name = match provider {
        "azure_openai" => "azure",
        "amazon-bedrock" => "bedrock",
        name => name,
    };
    PROVIDERS.iter().find(|known| known.name == name)
}

/// Returns the environment variable that usually holds the key of a provider, for example `ANTHROPIC_API_KEY`; `None` for an
/// unknown provider and for one without keys. This crate does not read the environment.
#[must_use]
pub fn key_variable(provider: &str) -> Option<&'static str> {
    known(provider)?.key
}

/// The error of a text that is no model string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidModelName {
    /// The text does not consist of a provider, a slash and the id of a model.
    #[error("{0:?} is no model; write provider/model, for example anthropic/claude-sonnet-5-5")]
    Form(String),
    /// The provider is unknown.
    #[error("there is no provider {0:?}; known are {known}. A file can name another one with `api`", known = names())]
    Provider(String),
}

fn names() -> String {
    PROVIDERS.iter().map(|known| known.name).collect::<Vec<_>>().join(", ")
}

/// Splits a model string at its first slash. The id of the model may contain more of them.
pub(super) fn split(text: &str) -> Result<(&str, &str), InvalidModelName> {
    let parts = text.trim().split_once('/');
    parts
        .filter(|(provider, id)| !provider.is_empty() && !id.is_empty())
        .ok_or_else(|| InvalidModelName::Form(text.to_owned()))
}

/// Returns a model of a provider by this protocol, otherwise by the provider's usual one. `None` if both are unknown.
pub(super) fn model_of(provider: &str, id: &str, api: Option<ApiProtocol>) -> Option<ModelConfig> {
    let known = known(provider);
    let usual = || Some(known?.protocol.unwrap_or(ApiProtocol::OpenAiCompletions));
    let api = api.or_else(usual)?;
    let mut model = match (api, provider) {
        (ApiProtocol::AnthropicMessages, _) => ModelConfig::anthropic(id, id, ""),
        (ApiProtocol::OpenAiCompletions, "openai") => ModelConfig::openai(id, id, ""),
        (ApiProtocol::OpenAiCompletions, "openrouter") => ModelConfig::openrouter(id, ""),
        (ApiProtocol::OpenAiResponses, "openai" | "openai_responses") => {
            ModelConfig { provider: "openai".to_owned(), ..ModelConfig::openai_responses(id, id, "") }
        }
        (ApiProtocol::AzureOpenAiResponses, _) => {
            ModelConfig { base_url: None, ..ModelConfig::azure("", id, "") }
        }
        (ApiProtocol::GoogleGenerativeAi, _) => ModelConfig::google(id, id, ""),
        (ApiProtocol::GoogleVertex, _) => {
            ModelConfig { project: None, region: None, ..ModelConfig::vertex("", "", id) }
        }
        (ApiProtocol::AnthropicVertex, _) => {
            ModelConfig { project: None, region: None, ..ModelConfig::vertex_claude("", "", id) }
        }
        (ApiProtocol::BedrockConverseStream, _) => {
            ModelConfig { region: None, ..ModelConfig::bedrock("", id) }
        }
        (ApiProtocol::OllamaChat, _) => ModelConfig::ollama(id),
        (api, provider) => ModelConfig::new(api, provider, id),
    };
    if provider != "openai_responses" {
        provider.clone_into(&mut model.provider);
    }
    Some(model)
}

impl FromStr for ModelConfig {
    type Err = InvalidModelName;

    /// Parses a provider and the id of a model, for example `anthropic/claude-sonnet-5-5` or
    /// `openrouter/meta-llama/llama-4`. The result has no key; see [`with_secrets`](Self::with_secrets).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (provider, id) = split(text)?;
        model_of(provider, id, None).ok_or_else(|| InvalidModelName::Provider(provider.to_owned()))
    }
}
