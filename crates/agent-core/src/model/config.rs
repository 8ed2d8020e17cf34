//! [`ModelConfig`] and its constructors, one for each protocol.

use std::collections::BTreeMap;
use std::fmt;

use super::{ApiProtocol, ChatDialect, CostConfig, Secret, ThinkingForm, ThinkingLevel};

/// Which model to call and how (REQ-147, REQ-186).
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The model's id, as the provider names it.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// The protocol.
    pub api: ApiProtocol,
    /// The provider's name: `anthropic`, `openai`, `groq`, ...
    pub provider: String,
    /// Where the API is; the protocol's own address when absent.
    pub base_url: Option<String>,
    /// The key. A key that the agent's `get_api_key` gives wins over it.
    pub api_key: Option<Secret>,
    /// Headers that replace the protocol's; `None` removes one (B-155).
    pub headers: BTreeMap<String, Option<String>>,
    /// The most tokens of prompt and answer together.
    pub context_window: u32,
    /// The most tokens of an answer.
    pub max_tokens: u32,
    /// Whether pictures are understood.
    pub images: bool,
    /// How thinking is asked for.
    pub thinking: ThinkingForm,
    /// The levels that are understood; empty means all.
    pub thinking_levels: Vec<ThinkingLevel>,
    /// Whether the endpoint knows prompt-cache markers (B-147).
    pub prompt_cache: bool,
    /// Prices.
    pub cost: CostConfig,
    /// Deviations of a Chat Completions server.
    pub dialect: ChatDialect,
    /// How Anthropic is told who calls.
    pub anthropic_auth: AnthropicAuth,
    /// The cloud region, for Vertex and Bedrock.
    pub region: Option<String>,
    /// The cloud project, for Vertex.
    pub project: Option<String>,
}

/// How Anthropic is told who calls (REQ-159, D19).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AnthropicAuth {
    /// `x-api-key`.
    #[default]
    ApiKey,
    /// `Authorization: Bearer`.
    Bearer,
    /// `Authorization: Bearer` with the headers of the vendor's own command-line client. Read the vendor's terms
    /// before you ask for it; nothing chooses it by itself.
    OAuthClient,
}

impl Default for ModelConfig {
    /// Ollama on this machine with `qwen3-coder:30b` (D34).
    fn default() -> Self {
        Self::ollama("qwen3-coder:30b")
    }
}

impl ModelConfig {
    /// A model of any protocol, with nothing else known of it.
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
            headers: BTreeMap::new(),
            context_window: 128_000,
            max_tokens: 4_096,
            images: true,
            thinking: ThinkingForm::None,
            thinking_levels: Vec::new(),
            prompt_cache: true,
            cost: CostConfig::default(),
            dialect: ChatDialect::default(),
            anthropic_auth: AnthropicAuth::ApiKey,
            region: None,
            project: None,
        }
    }

    /// A model of Anthropic's API.
    #[must_use]
    pub fn anthropic(id: impl Into<String>, name: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            context_window: 200_000,
            max_tokens: 8_192,
            thinking: ThinkingForm::Budget,
            ..Self::new(ApiProtocol::AnthropicMessages, "anthropic", id).named(name).with_api_key(api_key)
        }
    }

    /// A model of OpenAI's Chat Completions API.
    #[must_use]
    pub fn openai(id: impl Into<String>, name: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            thinking: ThinkingForm::Effort,
            ..Self::new(ApiProtocol::OpenAiCompletions, "openai", id).named(name).with_api_key(api_key)
        }
    }

    /// A model of a server that speaks Chat Completions, for example `http://localhost:8080/v1`.
    #[must_use]
    pub fn local(base_url: impl Into<String>, id: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self::new(ApiProtocol::OpenAiCompletions, "local", id).with_base_url(base_url).with_api_key(api_key)
    }

    /// A model through OpenRouter.
    #[must_use]
    pub fn openrouter(id: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            context_window: 200_000,
            thinking: ThinkingForm::Effort,
            ..Self::new(ApiProtocol::OpenAiCompletions, "openrouter", id)
                .with_base_url("https://openrouter.ai/api/v1")
                .with_api_key(api_key)
        }
    }

    /// A model of an Ollama server on this machine. [`with_base_url`](Self::with_base_url) names another host.
    #[must_use]
    pub fn ollama(id: impl Into<String>) -> Self {
        Self {
            context_window: 32_768,
            thinking: ThinkingForm::Toggle,
            prompt_cache: false,
            ..Self::new(ApiProtocol::OllamaChat, "ollama", id).with_base_url("http://localhost:11434")
        }
    }

    /// A model of OpenAI's Responses API.
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

    /// A deployment on Azure; `base_url` is the resource's v1 address or its deployment address.
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

    /// A model of the Gemini API.
    #[must_use]
    pub fn google(id: impl Into<String>, name: impl Into<String>, api_key: impl Into<Secret>) -> Self {
        Self {
            context_window: 1_000_000,
            max_tokens: 8_192,
            thinking: ThinkingForm::Budget,
            ..Self::new(ApiProtocol::GoogleGenerativeAi, "google", id).named(name).with_api_key(api_key)
        }
    }

    /// A model on Vertex AI.
    #[must_use]
    pub fn vertex(project: impl Into<String>, region: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            context_window: 1_000_000,
            max_tokens: 8_192,
            thinking: ThinkingForm::Budget,
            project: Some(project.into()),
            region: Some(region.into()),
            ..Self::new(ApiProtocol::GoogleVertex, "google_vertex", id)
        }
    }

    /// A model on AWS Bedrock.
    #[must_use]
    pub fn bedrock(region: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            context_window: 200_000,
            region: Some(region.into()),
            ..Self::new(ApiProtocol::BedrockConverseStream, "bedrock", id)
        }
    }

    /// The same model with a name for people.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same model with this key.
    #[must_use]
    pub fn with_api_key(mut self, api_key: impl Into<Secret>) -> Self {
        let key = api_key.into();
        self.api_key = (!key.is_empty()).then_some(key);
        self
    }

    /// The same model at another address.
    #[must_use]
    pub fn with_base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = Some(base_url.into());
        self
    }

    /// The same model with one more header; it replaces the protocol's header of that name.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), Some(value.into()));
        self
    }

    /// The same model without a header that the protocol would send.
    #[must_use]
    pub fn without_header(mut self, name: impl Into<String>) -> Self {
        self.headers.insert(name.into(), None);
        self
    }

    /// The same model with these limits, in tokens.
    #[must_use]
    pub fn with_limits(mut self, context_window: u32, max_tokens: u32) -> Self {
        self.context_window = context_window;
        self.max_tokens = max_tokens;
        self
    }

    /// The same model with these prices.
    #[must_use]
    pub fn with_cost(mut self, cost: CostConfig) -> Self {
        self.cost = cost;
        self
    }

    /// The same model, told to think in this form, at these levels (none means all).
    #[must_use]
    pub fn with_thinking_form(mut self, form: ThinkingForm, levels: impl Into<Vec<ThinkingLevel>>) -> Self {
        self.thinking = form;
        self.thinking_levels = levels.into();
        self
    }

    /// The same model, with or without pictures.
    #[must_use]
    pub fn with_images(mut self, images: bool) -> Self {
        self.images = images;
        self
    }

    /// The same model with these deviations of its server.
    #[must_use]
    pub fn with_dialect(mut self, dialect: ChatDialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// The same model, limited in its output by this field of the request (REQ-147).
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

/// An address without what may be a credential in it: user and password, query and fragment.
fn without_credentials(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}
