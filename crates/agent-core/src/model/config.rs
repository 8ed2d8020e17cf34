//! [`ModelConfig`] and its constructors, one for each protocol.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ApiProtocol, ChatDialect, CostConfig, InvalidProtocolName, Secret, ThinkingForm, ThinkingLevel};

/// A model and how to call it: address, key, limits, capabilities and prices.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The id of the model, as the provider names it.
    pub id: String,
    /// A display name of the model.
    pub name: String,
    /// The wire protocol of the provider.
    pub api: ApiProtocol,
    /// The name of the provider: `anthropic`, `openai`, `groq`, and so on.
    pub provider: String,
    /// The base address of the API; `None` for the protocol's default address.
    pub base_url: Option<String>,
    /// The API key. A key from the agent's `get_api_key` hook takes precedence.
    pub api_key: Option<Secret>,
    /// The environment variable that holds the API key; see [`with_secrets`](Self::with_secrets).
    pub api_key_env: Option<String>,
    /// Headers that replace those of the protocol; `None` removes a header.
    pub headers: BTreeMap<String, Option<String>>,
    /// The environment variables that hold the values of headers, by the names of the headers.
    pub header_env: BTreeMap<String, String>,
    /// The version of the API; `None` for the provider's default. Only Anthropic has versions.
    pub api_version: Option<String>,
    /// The maximum number of tokens of prompt and answer together; `None` if it is unknown.
    pub context_window: Option<u32>,
    /// The maximum number of tokens of an answer; `None` if it is unknown. A request then has no limit, unless the protocol
    /// requires one.
    pub max_tokens: Option<u32>,
    /// Whether the model accepts images.
    pub images: bool,
    /// The form of the request field that controls how much the model thinks.
    pub thinking: ThinkingForm,
    /// The thinking levels that the model supports; empty if it supports all.
    pub thinking_levels: Vec<ThinkingLevel>,
    /// Whether the endpoint accepts prompt-cache markers.
    pub prompt_cache: bool,
    /// The prices of the model's tokens.
    pub cost: CostConfig,
    /// The deviations of a Chat Completions server from OpenAI's API.
    pub dialect: ChatDialect,
    /// How requests to Anthropic are authenticated.
    pub anthropic_auth: AnthropicAuth,
    /// The cloud region, for Vertex and Bedrock.
    pub region: Option<String>,
    /// The cloud project, for Vertex AI and Bedrock.
    pub project: Option<String>,
    /// The facts that the caller has set by a method.
    pub(super) set: SetFacts,
}

/// A group of facts about a model that a provider can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelFact {
    /// The context window and the output limit.
    Limits,
    /// The prices of the model's tokens.
    Cost,
    /// Whether the model accepts images.
    Images,
    /// The form and the levels of thinking.
    Thinking,
}

/// The groups of facts that the caller has set.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SetFacts(u8);

impl SetFacts {
    pub(super) fn add(&mut self, fact: ModelFact) {
        self.0 |= 1 << fact as u8;
    }
}

/// How requests to Anthropic are authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnthropicAuth {
    /// The `x-api-key` header with an API key.
    #[default]
    ApiKey,
    /// The `Authorization: Bearer` header with a token.
    Bearer,
    /// The `Authorization: Bearer` header together with the headers of the vendor's own command-line client. Read the
    /// vendor's terms before you use it; it is never selected automatically.
    #[serde(rename = "oauth_client")]
    OAuthClient,
}

impl Default for ModelConfig {
    /// Returns the model `qwen3-coder:30b` of a local Ollama server, with a context window of 32,768 tokens and answers of
    /// at most 8,192 tokens.
    fn default() -> Self {
        Self { context_window: Some(32_768), max_tokens: Some(8_192), ..Self::ollama("qwen3-coder:30b") }
    }
}

impl ModelConfig {
    /// Creates a model of any protocol whose limits and prices are unknown.
    #[must_use]
    pub fn new(api: ApiProtocol, provider: impl Into<String>, id: impl Into<String>) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            api,
            provider: provider.into(),
            base_url: None,
            api_key: None,
            api_key_env: None,
            headers: BTreeMap::new(),
            header_env: BTreeMap::new(),
            api_version: None,
            context_window: None,
            max_tokens: None,
            images: true,
            thinking: ThinkingForm::None,
            thinking_levels: Vec::new(),
            prompt_cache: true,
            cost: CostConfig::default(),
            dialect: ChatDialect::default(),
            anthropic_auth: AnthropicAuth::ApiKey,
            region: None,
            project: None,
            set: SetFacts::default(),
        }
    }

    /// Returns whether the caller has set this fact by a method, such as [`with_limits`](Self::with_limits). A provider
    /// does not replace such a fact; see [`StreamProvider::complete_model`](crate::StreamProvider::complete_model).
    #[must_use]
    pub fn sets(&self, fact: ModelFact) -> bool {
        self.set.0 & (1 << fact as u8) != 0
    }

    /// Creates a model of a protocol of the application, for example `toy`, whose limits and prices are unknown. A provider
    /// for the protocol is registered in `agent_providers::ProviderRegistry` or given to the agent.
    ///
    /// # Errors
    /// Returns [`InvalidProtocolName`] if the name of the protocol has other characters or another length than
    /// [`ProtocolName`](super::ProtocolName) allows.
    pub fn custom(
        protocol: &str,
        provider: impl Into<String>,
        id: impl Into<String>,
    ) -> Result<Self, InvalidProtocolName> {
        Ok(Self::new(ApiProtocol::custom(protocol)?, provider, id))
    }

    /// Creates a model of the Anthropic API.
    #[must_use]
    pub fn anthropic(id: impl Into<String>, name: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            thinking: ThinkingForm::Budget,
            ..Self::new(ApiProtocol::AnthropicMessages, "anthropic", id).named(name).with_api_key(api_key)
        }
    }

    /// Creates a model of the OpenAI Chat Completions API.
    #[must_use]
    pub fn openai(id: impl Into<String>, name: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            thinking: ThinkingForm::Effort,
            ..Self::new(ApiProtocol::OpenAiCompletions, "openai", id).named(name).with_api_key(api_key)
        }
    }

    /// Creates a model of a server that speaks Chat Completions, for example at `http://localhost:8080/v1`.
    #[must_use]
    pub fn local(base_url: impl Into<String>, id: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self::new(ApiProtocol::OpenAiCompletions, "local", id).with_base_url(base_url).with_api_key(api_key)
    }

    /// Creates a model that is called through OpenRouter.
    #[must_use]
    pub fn openrouter(id: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            thinking: ThinkingForm::Effort,
            ..Self::new(ApiProtocol::OpenAiCompletions, "openrouter", id)
                .with_base_url("https://openrouter.ai/api/v1")
                .with_api_key(api_key)
        }
    }

    /// Creates a model of a local Ollama server. [`with_base_url`](Self::with_base_url) selects another host.
    #[must_use]
    pub fn ollama(id: impl Into<String>) -> Self {
        Self {
            thinking: ThinkingForm::Toggle,
            prompt_cache: false,
            ..Self::new(ApiProtocol::OllamaChat, "ollama", id).with_base_url("http://localhost:11434")
        }
    }

    /// Creates a model of the OpenAI Responses API.
    #[must_use]
    pub fn openai_responses(
        id: impl Into<String>,
        name: impl Into<String>,
        api_key: impl Into<Secret>,
    ) -> Self {
        Self {
            thinking: ThinkingForm::Effort,
            ..Self::new(ApiProtocol::OpenAiResponses, "openai", id).named(name).with_api_key(api_key)
        }
    }

    /// Creates a model of an Azure deployment; `base_url` is the v1 address of the resource or the address of the
    /// deployment.
    #[must_use]
    pub fn azure(
        base_url: impl Into<String>,
        deployment: impl Into<String>,
        api_key: impl Into<Secret>,
    ) -> Self {
        Self {
            thinking: ThinkingForm::Effort,
            ..Self::new(ApiProtocol::AzureOpenAiResponses, "azure", deployment)
                .with_base_url(base_url)
                .with_api_key(api_key)
        }
    }

    /// Creates a model of the Gemini API.
    #[must_use]
    pub fn google(id: impl Into<String>, name: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            thinking: ThinkingForm::Budget,
            ..Self::new(ApiProtocol::GoogleGenerativeAi, "google", id).named(name).with_api_key(api_key)
        }
    }

    /// Creates a model on Google Vertex AI.
    #[must_use]
    pub fn vertex(project: impl Into<String>, region: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            thinking: ThinkingForm::Budget,
            project: Some(project.into()),
            region: Some(region.into()),
            ..Self::new(ApiProtocol::GoogleVertex, "google_vertex", id)
        }
    }

    /// Creates a Claude model on Google Vertex AI, for example `claude-sonnet-4-5@20250929` in the region `global`.
    #[must_use]
    pub fn vertex_claude(
        project: impl Into<String>,
        region: impl Into<String>,
        id: impl Into<String>,
    ) -> Self {
        let id = id.into();
        Self {
            api: ApiProtocol::AnthropicVertex,
            provider: String::from("anthropic_vertex"),
            project: Some(project.into()),
            region: Some(region.into()),
            ..Self::anthropic(id.clone(), id, "")
        }
    }

    /// Creates a model on AWS Bedrock.
    #[must_use]
    pub fn bedrock(region: impl Into<String>, id: impl Into<String>) -> Self {
        Self { region: Some(region.into()), ..Self::new(ApiProtocol::BedrockConverseStream, "bedrock", id) }
    }

    /// Sets the display name of the model.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the API key of the model.
    #[must_use]
    pub fn with_api_key(mut self, api_key: impl Into<Secret>) -> Self {
        let key = api_key.into();
        self.api_key = (!key.is_empty()).then_some(key);
        self
    }

    /// Sets the base address of the API.
    #[must_use]
    pub fn with_base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = Some(base_url.into());
        self
    }

    /// Adds a header, which replaces the protocol's header of the same name.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a header that the protocol would send.
    #[must_use]
    pub fn without_header(mut self, name: impl Into<String>) -> Self {
        self.headers.insert(name.into(), None);
        self
    }

    /// Sets the version of the API, for example `2026-10-21` for Anthropic.
    #[must_use]
    pub fn with_api_version(mut self, version: impl Into<String>) -> Self {
        self.api_version = Some(version.into());
        self
    }

    /// Sets the context window and the output limit, in tokens. A limit of 0 is unknown, and no provider completes it.
    #[must_use]
    pub fn with_limits(mut self, context_window: u32, max_tokens: u32) -> Self {
        self.context_window = (context_window > 0).then_some(context_window);
        self.max_tokens = (max_tokens > 0).then_some(max_tokens);
        self.set.add(ModelFact::Limits);
        self
    }

    /// Sets the prices of the model's tokens.
    #[must_use]
    pub fn with_cost(mut self, cost: CostConfig) -> Self {
        self.cost = cost;
        self.set.add(ModelFact::Cost);
        self
    }

    /// Sets the form in which requests control how much the model thinks, and the levels that the model supports. An
    /// empty list means all levels.
    #[must_use]
    pub fn with_thinking_form(mut self, form: ThinkingForm, levels: impl Into<Vec<ThinkingLevel>>) -> Self {
        self.thinking = form;
        self.thinking_levels = levels.into();
        self.set.add(ModelFact::Thinking);
        self
    }

    /// Sets whether the model accepts images.
    #[must_use]
    pub fn with_images(mut self, images: bool) -> Self {
        self.images = images;
        self.set.add(ModelFact::Images);
        self
    }

    /// Sets the deviations of a Chat Completions server.
    #[must_use]
    pub fn with_dialect(mut self, dialect: ChatDialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Sets the request field that limits the output, such as `max_completion_tokens`.
    #[must_use]
    pub fn with_max_tokens_field(mut self, field: impl Into<String>) -> Self {
        self.dialect.max_tokens_field = Some(field.into());
        self
    }
}

impl fmt::Debug for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelConfig")
            .field("id", &self.id)
            .field("api", &self.api)
            .field("provider", &self.provider)
            .field("base_url", &self.base_url.as_deref().map(without_credentials))
            .field("api_key", &self.api_key)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("context_window", &self.context_window)
            .field("max_tokens", &self.max_tokens)
            .finish_non_exhaustive()
    }
}

/// Returns an address without the parts that may contain a credential: user, password, query and fragment.
pub(super) fn without_credentials(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}
