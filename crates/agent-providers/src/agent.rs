//! Creates agents that use the built-in providers.

use agent_core::compat::SeedSetters as _;
use std::sync::{Arc, OnceLock};

use agent_core::{ApiProtocol, BasicAgent, ModelConfig, StreamProvider};

use crate::{ProviderRegistry, catalogue};

/// Returns an agent for `model` with a provider for every enabled protocol. All agents share one connection pool.
///
/// The catalogue's facts about the model (context window, limits, capabilities, prices) replace those settings that still
/// have the default of the model's constructor. If the protocol's feature is disabled, the first prompt ends with an
/// error that names the feature.
///
/// ```
/// use agent_core::ModelConfig;
/// let agent = agent_providers::agent(ModelConfig::default()).with_system_prompt("Be brief.");
/// assert_eq!(agent.handle().config().model.id, "qwen3-coder:30b");
/// ```
#[must_use]
pub fn agent(model: ModelConfig) -> BasicAgent {
    BasicAgent::new(fill(model)).with_provider_override(shared())
}

/// Returns the registry of the process, and with it the one connection pool.
fn shared() -> Arc<dyn StreamProvider> {
    static REGISTRY: OnceLock<Arc<ProviderRegistry>> = OnceLock::new();
    let registry = REGISTRY.get_or_init(|| Arc::new(ProviderRegistry::default()));
    Arc::clone(registry) as Arc<dyn StreamProvider>
}

fn fill(mut model: ModelConfig) -> ModelConfig {
    let Some(facts) = catalogue::find(&model.provider, &model.id) else { return model };
    let known = facts.apply(model.clone());
    let said = constructed(&model);
    if (model.context_window, model.max_tokens) == (said.context_window, said.max_tokens) {
        (model.context_window, model.max_tokens) = (known.context_window, known.max_tokens);
    }
    if model.images == said.images {
        model.images = known.images;
    }
    if model.thinking == said.thinking && model.thinking_levels == said.thinking_levels {
        model.thinking = known.thinking;
        model.thinking_levels = known.thinking_levels;
    }
    if model.cost == said.cost {
        model.cost = known.cost;
    }
    model
}

/// Returns the model as its constructor creates it.
fn constructed(model: &ModelConfig) -> ModelConfig {
    let id = model.id.as_str();
    match (model.api, model.provider.as_str()) {
        (ApiProtocol::AnthropicMessages, _) => ModelConfig::anthropic(id, id, ""),
        (ApiProtocol::OpenAiCompletions, "openai") => ModelConfig::openai(id, id, ""),
        (ApiProtocol::OpenAiCompletions, "openrouter") => ModelConfig::openrouter(id, ""),
        (ApiProtocol::OpenAiResponses, "openai") => ModelConfig::openai_responses(id, id, ""),
        (ApiProtocol::AzureOpenAiResponses, "azure") => ModelConfig::azure("", id, ""),
        (ApiProtocol::OllamaChat, _) => ModelConfig::ollama(id),
        (api, provider) => ModelConfig::new(api, provider, id),
    }
}

#[cfg(test)]
mod tests;
